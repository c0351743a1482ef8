//! Starts an expectation.

use super::{Request, StepDefinition};
use crate::Problem;
use crate::expect::Expectation;

impl StepDefinition for Expectation {
    fn description(&self) -> String {
        format!("expect {self}")
    }

    fn request(&self) -> Request<'_> {
        Request::Expect(self)
    }

    fn validate(&self) -> Result<(), Problem> {
        let invalid = Expectation::validate(self);
        invalid.map_err(|(field, message)| (format!("expect.{field}"), message))
    }

    fn may_miss(&self) -> Option<bool> {
        Some(self.may_miss)
    }

    fn let_miss(&mut self) {
        self.may_miss = true;
    }
}
