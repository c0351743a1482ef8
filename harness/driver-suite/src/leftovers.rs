//! Finds the VMs of a run that still exist.

use mcm_api::{MachineName, ProviderId};

use crate::call::CallError;
use crate::report::Leftover;
use crate::session::{Session, Stopwatch, existing};

/// The VMs of this run that still exist: those in the list, and if there is none, those of each machine.
async fn find_leftovers(session: &Session) -> Vec<Leftover> {
    let listed = session.list().await.unwrap_or_default().into_iter();
    let own = listed.filter(|(_, machine)| session.owns(machine));
    let listed: Vec<Leftover> = own.map(|(id, machine)| leftover(Some(id), machine)).collect();
    if listed.is_empty() {
        return find_by_machine(session).await;
    }
    listed
}

async fn find_by_machine(session: &Session) -> Vec<Leftover> {
    let mut leftovers = Vec::new();
    for machine in session.machines() {
        let name = machine.metadata.name.as_deref().and_then(MachineName::new);
        match (existing(session.status(&machine).await), name) {
            (Ok(vm), Some(name)) => leftovers.push(leftover(vm.provider_id, name)),
            // The next machine would take as long, or has no answer either.
            (Err(CallError::NoAnswer { .. }), _) => break,
            (Err(error), _) if error.is_unimplemented() => break,
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
        waiting.pause().await;
    }
}

fn leftover(provider_id: Option<ProviderId>, machine: MachineName) -> Leftover {
    Leftover { provider_id, machine }
}
