//! Slow start: the first creations are few, so that one that cannot succeed does not fail five hundred times.

/// Batch sizes 1, 2, 4, … that add up to `count`.
pub fn slow_start(count: usize) -> impl Iterator<Item = usize> {
    let mut left = count;
    let mut size = 1;
    std::iter::from_fn(move || {
        let batch = size.min(left);
        left -= batch;
        size = batch * 2;
        (batch > 0).then_some(batch)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_double_and_add_up() {
        for (count, expected) in
            [(0, vec![]), (1, vec![1]), (5, vec![1, 2, 2]), (10, vec![1, 2, 4, 3]), (7, vec![1, 2, 4])]
        {
            assert_eq!(slow_start(count).collect::<Vec<_>>(), expected);
        }
        assert_eq!(slow_start(500).sum::<usize>(), 500);
    }
}
