//! Integers that stop at their limits instead of overflowing, for counts and amounts from users.

/// Changes an integer in place.
pub trait Saturating: Sized + Copy + Default {
    /// Adds, up to the maximum.
    fn raise(&mut self, by: Self);

    /// Subtracts, down to the minimum.
    fn lower(&mut self, by: Self);
}

macro_rules! saturating {
    ($($integer:ty),*) => {
        $(impl Saturating for $integer {
            fn raise(&mut self, by: Self) {
                *self = self.saturating_add(by);
            }

            fn lower(&mut self, by: Self) {
                *self = self.saturating_sub(by);
            }
        })*
    };
}

saturating!(i32, i64, i128, u32, u64, usize);

/// The sum, which stops at the limits of its type.
pub fn total<T: Saturating>(items: impl IntoIterator<Item = T>) -> T {
    let mut total = T::default();
    for item in items {
        total.raise(item);
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_stop_at_their_limits() {
        let mut count = i64::MAX;
        count.raise(1);
        assert_eq!(count, i64::MAX);
        let mut count = 1_usize;
        count.lower(2);
        assert_eq!(count, 0);
        assert_eq!(total([i32::MAX, i32::MAX, -1]), i32::MAX - 1);
        assert_eq!(total([2_u64, 3]), 5);
    }
}
