//! Allocates the addresses and node ports of services. An address is taken if an IPAddress has its name; a node port, if
//! a service has it.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde_json::Value;

use super::{Entry, Registry, metadata, tree};
use crate::kinds::{self, Address, PORTS};
use crate::resource::Resource;
use crate::status::{ApiError, FieldError};
use crate::store::{Key, Scope};

const TABLE: &str = "services";

pub(super) fn is_service(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.plural == TABLE
}

impl Registry {
    /// Sets the missing address and node ports of a service, and checks the given ones. The caller holds the lock of
    /// allocations until the service is stored.
    ///
    /// # Errors
    /// 422 for an address or port that is taken or out of range, 500 if none is left.
    pub(super) fn allocate(&self, entry: &Entry, new: &mut Value, old: Option<&Value>) -> Result<(), ApiError> {
        let invalid = |error: FieldError, name: &str| {
            ApiError::invalid(&entry.resource.group, &entry.resource.kind, name, &[error])
        };
        let name = metadata::text(new, "name").to_owned();
        let before = old.map(kinds::addresses).unwrap_or_default();
        match kinds::wanted_address(new) {
            Address::None => {}
            Address::Fixed(address) if before.contains(&address) => {}
            Address::Fixed(address) => {
                let why = if !Address::in_range(address) {
                    "the provided network does not match the current range"
                } else if self.is_taken(address) {
                    "provided IP is already allocated"
                } else {
                    ""
                };
                if !why.is_empty() {
                    let addresses = new.pointer("/spec/clusterIPs").cloned().unwrap_or_default();
                    let detail = format!("failed to allocate IP {address}: {why}");
                    return Err(invalid(
                        FieldError::invalid("spec.clusterIPs", addresses, detail),
                        &name,
                    ));
                }
            }
            Address::Any(seed) => {
                let free = (0..)
                    .map_while(|attempt| Address::candidate(seed, attempt))
                    .find(|address| !self.is_taken(*address));
                let Some(address) = free else {
                    let why = format!("failed to allocate a serviceIP for Service {name:?}: range is full");
                    return Err(ApiError::internal(why));
                };
                kinds::set_address(new, address);
            }
        }
        self.allocate_ports(new, old, &name, &invalid)
    }

    fn allocate_ports(
        &self,
        new: &mut Value,
        old: Option<&Value>,
        name: &str,
        invalid: &dyn Fn(FieldError, &str) -> ApiError,
    ) -> Result<(), ApiError> {
        let own = old.map(kinds::ports).unwrap_or_default();
        let is_own = |number: i64| own.iter().any(|(other, _)| *other == number);
        let given = kinds::ports(new);
        let needs_more = kinds::missing_ports(&mut new.clone(), &|_| false);
        if needs_more && given.iter().all(|(number, _)| is_own(*number)) {
            return Ok(());
        }
        let taken = self.node_ports()?;
        let key = Key::new(metadata::text(new, "namespace"), name);
        let is_taken = |number: i64| taken.get(&number).is_some_and(|owner| *owner != key);
        let ports = new
            .pointer("/spec/ports")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        for (index, port) in ports.enumerate() {
            let number = port.get("nodePort").and_then(Value::as_i64).unwrap_or_default();
            if number == 0 || is_own(number) {
                continue;
            }
            let why = if !PORTS.contains(&number) {
                "provided port is not in the valid range. The range of valid ports is 30000-32767"
            } else if is_taken(number) {
                "provided port is already allocated"
            } else {
                continue;
            };
            let path = format!("spec.ports[{index}].nodePort");
            return Err(invalid(FieldError::invalid(path, number, why), name));
        }
        match kinds::missing_ports(new, &|number| !is_taken(number)) {
            true => Ok(()),
            false => Err(ApiError::internal("failed to allocate a nodePort: range is full")),
        }
    }

    fn is_taken(&self, address: IpAddr) -> bool {
        let catalog = self.catalog();
        let entry = catalog.find("networking.k8s.io", "v1", "ipaddresses");
        entry.is_some_and(|entry| {
            self.store
                .get(&entry.table, &Key::new("", &address.to_string()))
                .is_some()
        })
    }

    /// The node ports of all services and the services that have them.
    fn node_ports(&self) -> Result<BTreeMap<i64, Key>, ApiError> {
        let listing = self.store.list(TABLE, &Scope::default(), None);
        let mut taken = BTreeMap::new();
        for object in listing.map(|listing| listing.objects).unwrap_or_default() {
            let has_ports = |(label, value): &(String, String)| {
                label == "spec.type" && matches!(value.as_str(), "NodePort" | "LoadBalancer")
            };
            if object.meta.fields.iter().any(has_ports) {
                for (number, _) in kinds::ports(&tree(&object)?) {
                    taken.insert(number, object.key.clone());
                }
            }
        }
        Ok(taken)
    }

    /// Creates and deletes the IPAddresses of a service that was written or removed (`new` is `None`).
    pub(super) fn sync_addresses(&self, key: &Key, new: Option<&Value>, old: Option<&Value>) -> Result<(), ApiError> {
        let of = |service: Option<&Value>| service.map(kinds::addresses).unwrap_or_default();
        let (now, before) = (of(new), of(old));
        if now == before {
            return Ok(());
        }
        let catalog = self.catalog();
        let Some(entry) = catalog.find("networking.k8s.io", "v1", "ipaddresses") else {
            return Ok(());
        };
        for address in now.iter().filter(|address| !before.contains(address)) {
            let object = kinds::allocated(*address, &key.namespace, &key.name);
            self.create_missing(entry, "", object)?;
        }
        for address in before.iter().filter(|address| !now.contains(address)) {
            match self.delete(
                entry,
                &Key::new("", &address.to_string()),
                &super::DeleteOptions::default(),
            ) {
                Err(error) if error.code != 404 => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}
