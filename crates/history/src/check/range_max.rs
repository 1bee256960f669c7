//! The largest of a range of numbers, of any range in constant time.

/// A sparse table: of each power of two the largest of so many numbers from each place on.
pub(super) struct RangeMax {
    levels: Vec<Vec<(u64, usize)>>,
}

impl RangeMax {
    pub(super) fn new(values: impl Iterator<Item = u64>) -> Self {
        let mut levels: Vec<Vec<(u64, usize)>> =
            vec![values.enumerate().map(|(at, value)| (value, at)).collect()];
        let mut width = 1;
        while let Some(last) = levels.last()
            && last.len() > width
        {
            let next = last.iter().zip(&last[width..]).map(|(a, b)| *a.max(b)).collect();
            levels.push(next);
            width *= 2;
        }
        Self { levels }
    }

    /// Returns the largest of the numbers at `from..to` with its place; `None` if there is none.
    pub(super) fn of(&self, from: usize, to: usize) -> Option<(u64, usize)> {
        let level = (to.checked_sub(from)?).checked_ilog2()?;
        let values = self.levels.get(level as usize)?;
        let last = to - (1 << level);
        Some(*values.get(from)?.max(values.get(last)?))
    }
}

#[cfg(test)]
mod tests {
    use super::RangeMax;

    #[test]
    fn every_range_has_its_largest() {
        for length in 0..20_u64 {
            let values: Vec<u64> = (0..length).map(|n| n * 7 % 11).collect();
            let table = RangeMax::new(values.iter().copied());
            for from in 0..values.len() {
                for to in from..=values.len() {
                    let largest = values[from..to].iter().max().copied();
                    assert_eq!(table.of(from, to).map(|(value, _)| value), largest);
                }
            }
        }
    }
}
