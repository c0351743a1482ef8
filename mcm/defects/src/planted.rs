//! The planted defect of each thread.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::Defect;

thread_local! {
    static PLANTED: Cell<Option<Defect>> = const { Cell::new(None) };
}

/// Whether one of `defects` is planted in this thread.
pub fn is_planted(defects: &[Defect]) -> bool {
    PLANTED.get().is_some_and(|planted| defects.contains(&planted))
}

/// Plants a defect in this thread until the result is dropped; it replaces a planted one.
#[must_use = "the defect is planted until the value is dropped"]
pub fn plant(defect: Option<Defect>) -> Planted {
    Planted {
        before: PLANTED.replace(defect),
        not_send: PhantomData,
    }
}

/// A guard: the defect stays planted while it exists.
#[derive(Debug)]
pub struct Planted {
    before: Option<Defect>,
    not_send: PhantomData<*const ()>,
}

impl Drop for Planted {
    fn drop(&mut self) {
        PLANTED.set(self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::defect;

    #[test]
    fn a_defect_is_planted_in_its_thread_until_the_guard_is_dropped() {
        if !crate::CAN_BE_PLANTED {
            return;
        }
        assert!(!defect!(CreatesWithoutAsking));
        let planted = plant(Some(Defect::CreatesWithoutAsking));
        assert!(defect!(LeadsWithoutLease | CreatesWithoutAsking));
        assert!(!defect!(LeadsWithoutLease));
        let other_thread = std::thread::spawn(|| defect!(CreatesWithoutAsking));
        assert!(!other_thread.join().unwrap());
        drop(planted);
        assert!(!defect!(CreatesWithoutAsking));
    }
}
