//! Vectors in copy-on-write chunks: a clone shares every chunk, so a snapshot costs a table of pointers.
//!
//! A write after a clone copies the one chunk that it touches. Chunks are small, so that copy stays cheap.

use std::collections::VecDeque;
use std::sync::Arc;

const CHUNK: usize = 64;

/// A growing vector in shared chunks.
#[derive(Debug, Clone)]
pub struct CowVec<T> {
    chunks: Vec<Arc<Vec<T>>>,
    len: usize,
}

impl<T> Default for CowVec<T> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            len: 0,
        }
    }
}

impl<T: Clone> CowVec<T> {
    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the element at `index`.
    pub fn get(&self, index: usize) -> Option<&T> {
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)
    }

    /// Returns the element at `index` to be changed; its chunk is copied if a clone shares it.
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        Arc::make_mut(self.chunks.get_mut(index / CHUNK)?).get_mut(index % CHUNK)
    }

    /// Adds an element at the end.
    pub fn push(&mut self, value: T) {
        if self.len.is_multiple_of(CHUNK) {
            self.chunks.push(Arc::new(Vec::with_capacity(CHUNK)));
        }
        let chunk = self
            .chunks
            .last_mut()
            .expect("a chunk was pushed when the last one was full");
        Arc::make_mut(chunk).push(value);
        self.len += 1;
    }

    /// Takes the last element.
    pub fn pop(&mut self) -> Option<T> {
        let value = Arc::make_mut(self.chunks.last_mut()?).pop();
        self.len -= 1;
        if self.len.is_multiple_of(CHUNK) {
            self.chunks.pop();
        }
        value
    }

    /// Returns the elements in order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks.iter().flat_map(|chunk| chunk.iter())
    }

    /// Returns the bytes that are allocated, chunks that a clone shares included.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Arc<Vec<T>>>() + self.chunks.len() * chunk_bytes::<T>()
    }
}

/// A queue in shared chunks whose elements keep their position: the first ever pushed has position 0.
#[derive(Debug, Clone)]
pub(crate) struct CowDeque<T> {
    chunks: VecDeque<Arc<Vec<T>>>,
    /// Position of the first element of the first chunk.
    base: u64,
    /// Elements of the first chunk that are gone.
    popped: usize,
}

impl<T> Default for CowDeque<T> {
    fn default() -> Self {
        Self {
            chunks: VecDeque::new(),
            base: 0,
            popped: 0,
        }
    }
}

impl<T: Clone> CowDeque<T> {
    pub(crate) fn len(&self) -> usize {
        let full = self.chunks.len().saturating_sub(1) * CHUNK;
        self.chunks
            .back()
            .map_or(0, |last| full + last.len() - self.popped)
    }

    pub(crate) fn push_back(&mut self, value: T) -> u64 {
        if self.chunks.back().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push_back(Arc::new(Vec::with_capacity(CHUNK)));
        }
        let before = (self.chunks.len() - 1) * CHUNK;
        let chunk = self
            .chunks
            .back_mut()
            .expect("a chunk was pushed when the last one was full");
        let position = self.base + (before + chunk.len()) as u64;
        Arc::make_mut(chunk).push(value);
        position
    }

    pub(crate) fn front(&self) -> Option<&T> {
        self.chunks.front()?.get(self.popped)
    }

    pub(crate) fn pop_front(&mut self) {
        if self.front().is_none() {
            return;
        }
        self.popped += 1;
        if self.popped == CHUNK {
            self.chunks.pop_front();
            self.base += CHUNK as u64;
            self.popped = 0;
        }
    }

    /// Returns the position of the first element, or of the next one if there is none.
    pub(crate) fn first_position(&self) -> u64 {
        self.base + self.popped as u64
    }

    /// Returns the element that was pushed to `position`, unless it is gone.
    pub(crate) fn get(&self, position: u64) -> Option<&T> {
        let offset = usize::try_from(position.checked_sub(self.base)?).ok()?;
        if offset < self.popped {
            return None;
        }
        self.chunks.get(offset / CHUNK)?.get(offset % CHUNK)
    }

    /// Returns the bytes that are allocated, chunks that a clone shares included.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Arc<Vec<T>>>() + self.chunks.len() * chunk_bytes::<T>()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks
            .iter()
            .flat_map(|chunk| chunk.iter())
            .skip(self.popped)
    }
}

/// A chunk: two counts and a vector, and what the vector holds.
const fn chunk_bytes<T>() -> usize {
    2 * size_of::<usize>() + size_of::<Vec<T>>() + CHUNK * size_of::<T>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_does_not_see_later_changes() {
        let mut numbers = CowVec::default();
        (0..200).for_each(|n| numbers.push(n));
        let before = numbers.clone();
        *numbers.get_mut(70).unwrap() = 7;
        numbers.push(200);
        assert_eq!((before.get(70), before.len()), (Some(&70), 200));
        assert_eq!((numbers.get(70), numbers.len()), (Some(&7), 201));
    }

    #[test]
    fn a_vector_grows_and_shrinks_over_chunk_borders() {
        let mut numbers = CowVec::default();
        for round in 0..3 {
            (0..130).for_each(|n| numbers.push(n));
            assert_eq!(
                numbers.iter().copied().collect::<Vec<_>>(),
                (0..130).collect::<Vec<_>>(),
                "{round}"
            );
            for n in (0..130).rev() {
                assert_eq!(numbers.pop(), Some(n));
            }
            assert_eq!((numbers.pop(), numbers.is_empty()), (None, true));
        }
    }

    #[test]
    fn a_deque_keeps_positions_while_its_front_goes() {
        let mut deque = CowDeque::default();
        let mut first = 0;
        for n in 0..1_000_u64 {
            assert_eq!(deque.push_back(n), n);
            if n % 3 != 0 {
                assert_eq!(deque.front(), Some(&first));
                deque.pop_front();
                first += 1;
                assert_eq!(deque.get(first - 1), None);
            }
            assert_eq!(deque.get(n), Some(&n).filter(|_| n >= first));
            assert_eq!(deque.len() as u64, n + 1 - first);
        }
        assert_eq!(
            deque.iter().copied().collect::<Vec<_>>(),
            (first..1_000).collect::<Vec<_>>()
        );
    }
}
