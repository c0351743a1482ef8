//! The operators: logic, arithmetic, comparisons and `in`.

use std::cmp::Ordering;

use kube_cel::cel::ExecutionError;

use super::super::cost::tenth;
use super::super::expression::{Expression, Operator};
use super::super::{Key, Value};
use super::size::{key_cost, size};
use super::{Evaluated, Evaluator, Failure, error, overload};

impl Evaluator<'_> {
    /// Whether any part (or, without `decisive`, all parts) are true. An error counts only if no part decides.
    pub(super) fn logic(&mut self, parts: &[Expression], decisive: bool) -> Evaluated {
        let mut failure = None;
        for part in parts {
            match self.bool(part) {
                Ok(value) if value == decisive => return Ok(Value::Bool(decisive)),
                Ok(_) => {}
                Err(error @ Failure::Error(_)) => failure = failure.or(Some(error)),
                Err(limit) => return Err(limit),
            }
        }
        failure.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    #[expect(
        clippy::arithmetic_side_effects,
        reason = "the operators of this type return an error on overflow"
    )]
    pub(super) fn binary(&mut self, operator: Operator, left: Value, right: Value) -> Evaluated {
        use Operator as O;
        match operator {
            O::Equal | O::NotEqual => {
                let same = self.equal(&left, &right)?;
                Ok(Value::Bool(same == (operator == O::Equal)))
            }
            O::In => self.contains(&right, &left).map(Value::Bool),
            O::Less | O::LessOrEqual | O::Greater | O::GreaterOrEqual => {
                self.budget.spend(tenth(size(&left).min(size(&right))).max(1))?;
                let order = left.partial_cmp(&right);
                if order.is_none() && !(is_number(&left) && is_number(&right)) {
                    return Err(overload());
                }
                Ok(Value::Bool(match operator {
                    O::Less => order == Some(Ordering::Less),
                    O::LessOrEqual => matches!(order, Some(Ordering::Less | Ordering::Equal)),
                    O::Greater => order == Some(Ordering::Greater),
                    _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
                }))
            }
            O::Add => {
                self.budget
                    .spend(tenth(size(&left).saturating_add(size(&right))).max(1))?;
                match (left, right) {
                    (Value::Bytes(left), Value::Bytes(right)) => {
                        Ok(Value::Bytes([left.as_slice(), right.as_slice()].concat().into()))
                    }
                    (left, right) => arithmetic(left + right),
                }
            }
            O::Subtract => {
                self.budget.spend(1)?;
                arithmetic(left - right)
            }
            O::Multiply => {
                self.budget.spend(1)?;
                arithmetic(left * right)
            }
            O::Divide => {
                self.budget.spend(1)?;
                arithmetic(left / right)
            }
            O::Remainder => {
                self.budget.spend(1)?;
                arithmetic(left % right)
            }
        }
    }

    fn equal(&mut self, left: &Value, right: &Value) -> Result<bool, Failure> {
        // Only one side has to be read to its end.
        match (left, right) {
            (Value::List(_) | Value::Map(_) | Value::Opaque(_), Value::List(_) | Value::Map(_) | Value::Opaque(_)) => {
                self.read(left)?;
                self.read(right)?;
            }
            _ => self.budget.spend(tenth(size(left).min(size(right))).max(1))?,
        }
        Ok(left == right)
    }

    fn contains(&mut self, container: &Value, wanted: &Value) -> Result<bool, Failure> {
        match container {
            Value::List(items) => {
                self.budget.spend(items.len() as u64)?;
                for item in items.iter() {
                    let same = match item {
                        Value::List(_) | Value::Map(_) | Value::Opaque(_) => self.equal(item, wanted)?,
                        _ => {
                            // Texts of different lengths differ without being read.
                            let read = if size(item) == size(wanted) { size(item) } else { 0 };
                            self.budget.spend(tenth(read).saturating_sub(1))?;
                            item == wanted
                        }
                    };
                    if same {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Value::Map(map) => {
                self.budget.spend(key_cost(wanted))?;
                let key: Result<Key, Value> = wanted.clone().try_into();
                Ok(key.is_ok_and(|key| map.get(&key).is_some()))
            }
            _ => Err(overload()),
        }
    }
}

fn arithmetic(result: Result<Value, ExecutionError>) -> Evaluated {
    result.map_err(|problem| match problem {
        ExecutionError::Overflow(..) => error("integer overflow"),
        ExecutionError::DivisionByZero(_) => error("division by zero"),
        ExecutionError::RemainderByZero(_) => error("modulus by zero"),
        _ => overload(),
    })
}

pub(super) fn is_number(value: &Value) -> bool {
    matches!(value, Value::Int(_) | Value::UInt(_) | Value::Float(_))
}
