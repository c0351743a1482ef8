//! Values with functions of their own, such as the authorizer of admission policies.

use std::fmt::Debug;
use std::sync::Arc;

use kube_cel::cel::objects::Opaque;

use super::Value;

/// A value with functions that expressions call, and that no expression can build.
pub(crate) trait Native: Debug + Send + Sync + 'static {
    /// The value of a field.
    fn field(&self, name: &str) -> Option<Value>;

    /// The result of a function.
    ///
    /// # Errors
    /// The reason why there is none.
    fn call(&self, function: &str, arguments: &[Value]) -> Result<Value, String>;

    /// The cost of a call.
    fn cost(&self, function: &str) -> u64;

    /// What two equal values share; `None` if a value equals only itself.
    fn identity(&self) -> Option<&str> {
        None
    }
}

#[derive(Clone, Debug)]
struct Holder(Arc<dyn Native>);

impl PartialEq for Holder {
    fn eq(&self, other: &Self) -> bool {
        let same_text = self.0.identity().is_some() && self.0.identity() == other.0.identity();
        same_text || Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Holder {}

impl Opaque for Holder {
    fn runtime_type_name(&self) -> &str {
        "native"
    }
}

/// The value of a native.
pub(crate) fn native(value: impl Native) -> Value {
    Value::Opaque(Arc::new(Holder(Arc::new(value))))
}

/// The native of a value, if it is one.
pub(super) fn native_of(value: &Value) -> Option<&dyn Native> {
    match value {
        Value::Opaque(opaque) => opaque.downcast_ref::<Holder>().map(|holder| holder.0.as_ref()),
        _ => None,
    }
}
