//! Which defect is planted in a thread.

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

/// Plants a defect in this thread until the answer is dropped, in the place of another one.
#[must_use = "the defect is planted until this is dropped"]
pub fn plant(defect: Option<Defect>) -> Planted {
    Planted {
        before: PLANTED.replace(defect),
        of_this_thread: PhantomData,
    }
}

/// A defect is planted as long as this exists.
#[derive(Debug)]
pub struct Planted {
    before: Option<Defect>,
    of_this_thread: PhantomData<*const ()>,
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
    fn a_defect_is_planted_in_its_thread_until_it_is_dropped() {
        if !crate::CAN_BE_PLANTED {
            return;
        }
        assert!(!defect!(CreatesWithoutAsking));
        let planted = plant(Some(Defect::CreatesWithoutAsking));
        assert!(defect!(LeadsWithoutLease | CreatesWithoutAsking));
        assert!(!defect!(LeadsWithoutLease));
        let elsewhere = std::thread::spawn(|| defect!(CreatesWithoutAsking));
        assert!(!elsewhere.join().unwrap());
        drop(planted);
        assert!(!defect!(CreatesWithoutAsking));
    }
}
