//! The contract: what clients see, word for word.
//!
//! Each case sends requests and keeps a transcript of the answers. The transcripts in `snapshots`
//! were recorded from a kube-apiserver; the embedded server must give the same ones. When
//! `DRYDOCK_CONTRACT_KUBECONFIG` names a kubeconfig, each case also runs against that server.
//!
//! Where the embedded server is known to say it differently, a second transcript ends in `__embedded`:
//! the difference of the two files is the difference of the servers. `docs/reference/embedded-server.md` names
//! the reasons. A case without such a file holds for both.
//!
//! What differs between two runs of one server is replaced: uids, times, revisions (numbered as they
//! appear), continue tokens, and the names that keep cases apart (`{ns}`, `{group}`).

mod accounts;
mod aggregation;
mod authorization;
mod crud;
mod definitions;
mod deletion;
mod discovery;
mod escalation;
mod impersonation;
mod lists;
mod patches;
mod pods;
mod refusals;
mod reviews;
mod site;
mod subresources;
mod tables;
mod transcript;
mod watches;

pub(crate) use site::{Site, run};

/// Runs a case, named after the test function, against every server there is.
macro_rules! contract {
    ($case:expr) => {{
        fn here() {}
        let name = std::any::type_name_of_val(&here).trim_end_matches("::here");
        let name = name.split("contract::").last().unwrap_or(name).replace("::", "__");
        crate::contract::run(&name, $case)
    }};
}
pub(crate) use contract;
