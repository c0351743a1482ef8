//! `apiVersion` and `kind` of the group's objects: always serialized, determined by the type.

use std::fmt;
use std::marker::PhantomData;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The `apiVersion` of every kind of the group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApiVersion;

impl Serialize for ApiVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("machine.sapcloud.io/v1alpha1")
    }
}

impl<'de> Deserialize<'de> for ApiVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self)
    }
}

/// The `kind` of `T`.
pub struct Kind<T>(PhantomData<fn() -> T>);

impl<T> Clone for Kind<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Kind<T> {}

impl<T> Default for Kind<T> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T> PartialEq for Kind<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T: k8s_openapi::Resource> fmt::Debug for Kind<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::KIND)
    }
}

impl<T: k8s_openapi::Resource> Serialize for Kind<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(T::KIND)
    }
}

impl<'de, T> Deserialize<'de> for Kind<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self::default())
    }
}
