//! A queue of many small elements in chunks: it grows without moving what it holds and gives room back as it empties,
//! so that a long list takes little more than its elements, at any length.

use std::collections::VecDeque;

/// Room of a second chunk. A shorter list has one chunk, which grows with it: there may be as many lists as messages.
const CHUNK_MIN: usize = 1_024;
/// A later chunk has the room of so much of the list, so that a long list has few.
const CHUNK_SHARE: usize = 8;

/// A first-in, first-out queue.
#[derive(Debug)]
pub(crate) struct ChunkedDeque<T> {
    /// None is empty but the last.
    chunks: VecDeque<Vec<T>>,
    len: usize,
    /// Elements of the first chunk that are gone.
    popped: usize,
}

impl<T> Default for ChunkedDeque<T> {
    fn default() -> Self {
        Self {
            chunks: VecDeque::new(),
            len: 0,
            popped: 0,
        }
    }
}

impl<T: Copy> ChunkedDeque<T> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn push_back(&mut self, value: T) {
        match self.chunks.back_mut() {
            Some(chunk) if chunk.len() < chunk.capacity() => chunk.push(value),
            Some(_) | None => self.push_growing(value),
        }
        self.len += 1;
    }

    /// Adds an element for which the last chunk has no room.
    fn push_growing(&mut self, value: T) {
        self.close_up();
        let may_grow = |chunk: &&mut Vec<T>| chunk.len() < chunk.capacity() || chunk.len() < CHUNK_MIN;
        match self.chunks.back_mut().filter(may_grow) {
            Some(chunk) => chunk.push(value),
            None => {
                let room = if self.chunks.is_empty() {
                    0
                } else {
                    (self.len / CHUNK_SHARE).max(CHUNK_MIN)
                };
                let mut chunk = Vec::with_capacity(room);
                chunk.push(value);
                self.chunks.push_back(chunk);
            }
        }
    }

    /// Uses the room of elements that are gone before the only chunk grows.
    fn close_up(&mut self) {
        if self.popped == 0 || self.chunks.len() > 1 {
            return;
        }
        if let Some(chunk) = self.chunks.front_mut()
            && chunk.len() == chunk.capacity()
            && self.popped * 2 >= chunk.len()
        {
            chunk.drain(..self.popped);
            self.popped = 0;
        }
    }

    pub(crate) fn front(&self) -> Option<&T> {
        self.chunks.front()?.get(self.popped)
    }

    pub(crate) fn pop_front(&mut self) {
        let is_last = self.chunks.len() == 1;
        let Some(first) = self.chunks.front_mut().filter(|first| self.popped < first.len()) else {
            return;
        };
        self.len -= 1;
        self.popped += 1;
        if self.popped < first.len() {
            return;
        }
        self.popped = 0;
        if !is_last {
            self.chunks.pop_front();
        } else if first.capacity() > CHUNK_MIN {
            self.chunks.clear();
        } else {
            first.clear();
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks
            .iter()
            .flat_map(|chunk| chunk.iter())
            .skip(self.popped)
    }

    /// Keeps the elements of which `keeps` says so, in order.
    pub(crate) fn retain(&mut self, mut keeps: impl FnMut(&T) -> bool) {
        let mut kept = Self::default();
        for value in self.iter().filter(|value| keeps(value)) {
            kept.push_back(*value);
        }
        *self = kept;
    }

    /// Returns the bytes that are allocated.
    pub(crate) fn memory_bytes(&self) -> usize {
        let room: usize = self.chunks.iter().map(Vec::capacity).sum();
        self.chunks.capacity() * size_of::<Vec<T>>() + room * size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_come_in_the_order_in_which_they_went() {
        let (mut deque, mut plain) = (ChunkedDeque::default(), VecDeque::new());
        for n in 0..9_000_u32 {
            deque.push_back(n);
            plain.push_back(n);
            // Faster than it fills for a while, so that it runs empty in the middle of a chunk.
            for _ in 0..n / 3_000 {
                assert_eq!(deque.front(), plain.front());
                deque.pop_front();
                plain.pop_front();
            }
            if n % 2_701 == 0 {
                deque.retain(|value| value % 3 > 0);
                plain.retain(|value| value % 3 > 0);
                assert!(deque.iter().eq(plain.iter()));
            }
            assert_eq!(deque.len(), plain.len());
        }
        assert!(deque.iter().eq(plain.iter()));
        let bytes = deque.memory_bytes();
        assert!(bytes < 20_000, "{bytes} bytes for {} elements", deque.len());
    }

    #[test]
    fn a_short_list_takes_little() {
        let mut deque = ChunkedDeque::default();
        deque.push_back(0);
        for n in 1..10_000_u32 {
            deque.push_back(n);
            assert_eq!(deque.front(), Some(&(n - 1)));
            deque.pop_front();
        }
        let bytes = deque.memory_bytes();
        assert!(bytes < 200, "{bytes} bytes for one element");
    }
}
