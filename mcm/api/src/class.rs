//! MachineClass: the configuration of VMs. Its fields are at the top level; it has no spec or status.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::SecretReference;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::type_meta::{ApiVersion, Kind};

crate::kind!(MachineClass, "machineclasses");

/// A template for VMs of one provider.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineClass {
    /// Always the group's only version.
    pub api_version: ApiVersion,
    /// Always `MachineClass`.
    pub kind: Kind<MachineClass>,
    /// Standard metadata.
    pub metadata: ObjectMeta,
    /// The properties of this class's nodes, for scaling from zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_template: Option<NodeTemplate>,
    /// A Secret whose data takes precedence over that of `secretRef`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_secret_ref: Option<SecretReference>,
    /// The configuration for the driver; opaque to the controller.
    pub provider_spec: serde_json::Value,
    /// The provider's name; routes calls to drivers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// A Secret with credentials and `userData`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
}

/// The expected properties of a class's Nodes, used while none exists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeTemplate {
    /// Expected capacity; must name `cpu`, `gpu` and `memory`.
    pub capacity: BTreeMap<String, Quantity>,
    /// Extended resources to be written to the Node's capacity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub virtual_capacity: Option<BTreeMap<String, Quantity>>,
    /// For example `m5.large`.
    pub instance_type: String,
    /// The cloud's region.
    pub region: String,
    /// The cloud's zone.
    pub zone: String,
    /// For example `amd64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
}
