//! The contract: the exact responses that clients see.
//!
//! Each case sends requests and keeps a transcript of the responses. The transcripts in `snapshots` were recorded
//! from a kube-apiserver; the embedded server must produce the same ones. If `DRYDOCK_CONTRACT_KUBECONFIG` names a
//! kubeconfig, each case also runs on that server.
//!
//! If the response of the embedded server is known to differ, a second transcript ends in `__embedded`: the
//! difference between the files is the difference between the servers, and `docs/reference/embedded-server.md` states
//! the reasons. A case without such a file applies to both servers.
//!
//! Transcripts replace values that differ between two runs of one server: uids, times, revisions (numbered in order
//! of appearance), continue tokens, and the names that isolate cases (`{ns}`, `{group}`).

mod accounts;
mod admission;
mod aggregation;
mod api_services;
mod apply;
mod authorization;
mod control;
mod conversion;
mod crud;
mod custom;
mod defaults;
mod definitions;
mod deletion;
mod discovery;
mod encodings;
mod enforcement;
mod escalation;
mod expressions;
mod extension;
mod impersonation;
mod kind_rules;
mod kinds;
mod limits;
mod lists;
mod manifests;
mod mutations;
mod patches;
mod pods;
mod policies;
mod policy_values;
mod program;
mod reading;
mod refusals;
mod reviews;
mod schemas;
mod services;
pub(crate) mod site;
mod storage;
mod subresources;
mod tables;
mod transcript;
mod versions;
mod watches;
mod webhook_requests;
mod webhooks;
mod workloads;
mod writing;

pub(crate) use site::{Site, run, run_with_network};

/// Runs a case, named after the test function, on every available server.
macro_rules! contract {
    ($case:expr) => {{
        fn here() {}
        let name = std::any::type_name_of_val(&here).trim_end_matches("::here");
        let name = name.split("contract::").last().unwrap_or(name).replace("::", "__");
        crate::contract::run(&name, $case)
    }};
}
pub(crate) use contract;

/// Runs a case in which the server calls programs of the case: on several threads, in real time.
macro_rules! contract_with_network {
    ($case:expr) => {{
        fn here() {}
        let name = std::any::type_name_of_val(&here).trim_end_matches("::here");
        let name = name.split("contract::").last().unwrap_or(name).replace("::", "__");
        crate::contract::run_with_network(&name, $case)
    }};
}
pub(crate) use contract_with_network;
