//! Finds the VMs of a run that still exist.

use mcm_api::{MachineName, ProviderId};

use crate::call::CallError;
use crate::report::Leftover;
use crate::session::{Session, Stopwatch, existing, pause};

/// The VMs of this run that still exist.
async fn find_leftovers(session: &Session) -> Vec<Leftover> {
    if let Ok(vms) = session.list().await {
        let own = vms.into_iter().filter(|(_, machine)| session.owns(machine));
        return own.map(|(id, machine)| leftover(Some(id), machine)).collect();
    }
    let mut leftovers = Vec::new();
    for machine in session.machines() {
        let name = machine.metadata.name.as_deref().and_then(MachineName::new);
        match (existing(session.status(&machine).await), name) {
            (Ok(vm), Some(name)) => leftovers.push(leftover(vm.provider_id, name)),
            // The next machine would take as long.
            (Err(CallError::NoAnswer { .. }), _) => break,
            _ => {}
        }
    }
    leftovers
}

/// The VMs of this run that still exist after the time that a cloud may take for deletions.
pub(crate) async fn wait_for_leftovers(session: &Session) -> Vec<Leftover> {
    let waiting = Stopwatch::start();
    loop {
        let left = find_leftovers(session).await;
        if left.is_empty() || waiting.elapsed() >= session.limits.settle {
            return left;
        }
        pause().await;
    }
}

fn leftover(provider_id: Option<ProviderId>, machine: MachineName) -> Leftover {
    Leftover { provider_id, machine }
}
