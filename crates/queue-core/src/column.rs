//! A column beside the slab, which only grows: in chunks, so that it grows without moving what it holds.

const CHUNK: usize = 1_024;

/// A growing vector. What is added stays where it is.
#[derive(Debug)]
pub(crate) struct Column<T> {
    chunks: Vec<Vec<T>>,
}

impl<T> Default for Column<T> {
    fn default() -> Self {
        Self { chunks: Vec::new() }
    }
}

impl<T> Column<T> {
    /// Adds an element at the end.
    pub(crate) fn push(&mut self, value: T) {
        match self.chunks.last_mut().filter(|chunk| chunk.len() < CHUNK) {
            Some(chunk) => chunk.push(value),
            None => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(value);
                self.chunks.push(chunk);
            }
        }
    }

    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        let index = index as usize;
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        let index = index as usize;
        self.chunks.get_mut(index / CHUNK)?.get_mut(index % CHUNK)
    }

    /// Returns the bytes that are allocated.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.chunks.capacity() * size_of::<Vec<T>>() + self.chunks.len() * CHUNK * size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_found_at_its_place_and_nothing_behind_it() {
        let mut column = Column::default();
        for n in 0..3_000 {
            assert_eq!(column.get(n), None);
            column.push(n);
            assert_eq!(column.get_mut(n), Some(&mut { n }));
        }
        assert_eq!((column.get(0), column.get(2_999)), (Some(&0), Some(&2_999)));
    }
}
