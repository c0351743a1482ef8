//! Delayed creations and attachments: they take effect at their time, even if the client has given up.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use mcm_api::cloud::{Code, DriverError, VmIdentity};
use mcm_driver::MachineRequest;

use super::calls::{BegunCall, class_of, owner, zone_of};
use super::faults::{CallInfo, Effect, Hit};
use super::{Cloud, CloudCall, Reply, later};

/// A creation that takes effect later.
struct LateCreation {
    request: MachineRequest,
    hit: Option<Hit>,
    client: String,
}

/// The request without credentials.
impl fmt::Debug for LateCreation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LateCreation")
            .field("hit", &self.hit)
            .field("client", &self.client)
            .finish_non_exhaustive()
    }
}

/// An attachment of a volume that takes effect later.
#[derive(Debug)]
struct LateAttachment {
    volume: String,
    vm: String,
}

/// Pending creations and attachments, and finished creations whose result was not read yet.
#[derive(Debug, Default)]
pub(super) struct Late {
    last: u64,
    due: BTreeSet<(Timestamp, u64)>,
    under_way: BTreeMap<u64, LateCreation>,
    attachments: BTreeMap<u64, LateAttachment>,
    ended: BTreeMap<u64, Reply<VmIdentity>>,
}

/// A pending creation: its number and its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    number: u64,
    /// When it takes effect.
    pub due: Timestamp,
}

/// The start of a CreateMachine call.
#[derive(Debug)]
pub enum Creation {
    /// It is finished.
    Done(Reply<VmIdentity>),
    /// It takes effect later.
    Later(Ticket),
}

impl Late {
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Numbers an effect and schedules it.
    fn schedule(&mut self, due: Timestamp) -> u64 {
        self.last += 1;
        self.due.insert((due, self.last));
        self.last
    }

    /// Schedules the attachment of a volume to the VM with this ID.
    pub(super) fn attach(&mut self, volume: &str, vm: &str, due: Timestamp) {
        let number = self.schedule(due);
        let attachment = LateAttachment {
            volume: volume.to_owned(),
            vm: vm.to_owned(),
        };
        self.attachments.insert(number, attachment);
    }

    /// The ID of the VM to which a volume will be attached.
    pub(super) fn attaching(&self, volume: &str) -> Option<&str> {
        let mut pending = self.attachments.values();
        pending
            .find(|pending| pending.volume == volume)
            .map(|pending| &*pending.vm)
    }

    /// Drops the pending attachments of a volume.
    pub(super) fn cancel_attachments(&mut self, volume: &str) {
        self.attachments.retain(|_, attachment| attachment.volume != volume);
        let Self {
            due,
            under_way,
            attachments,
            ..
        } = self;
        due.retain(|(_, number)| under_way.contains_key(number) || attachments.contains_key(number));
    }
}

impl Cloud {
    /// Creates the machine's VM at once, even if a rule delays creations.
    pub fn create_machine(&mut self, request: &MachineRequest, now: Timestamp) -> Reply<VmIdentity> {
        match self.begin_creation(request, "", now) {
            Creation::Done(reply) => reply,
            Creation::Later(ticket) => {
                let reply = self.end_creation(ticket, ticket.due);
                reply.unwrap_or_else(|| Reply {
                    result: Err(DriverError::new(Code::Internal, "the creation has left no result")),
                    delay: Duration::ZERO,
                })
            }
        }
    }

    /// Starts to create the machine's VM; `client`: the name that the client gives, empty: none.
    pub fn begin_creation(&mut self, request: &MachineRequest, client: &str, now: Timestamp) -> Creation {
        self.advance(now);
        let machine = owner(request).key();
        self.watch_call(CloudCall::CreateMachine, request, client, now);
        let hit = self.admit(&CallInfo {
            call: CloudCall::CreateMachine,
            machine: Some(&machine),
            class: class_of(request),
            zone: zone_of(&request.class),
            client,
            now,
        });
        let (hit, delay) = match hit {
            Some(Hit {
                effect: Effect::Later(delay),
                ..
            }) => (hit, delay),
            hit => return Creation::Done(self.create_as(request, hit, client, now)),
        };
        let due = later(now, delay);
        let number = self.late.schedule(due);
        let creation = LateCreation {
            request: request.clone(),
            hit,
            client: client.to_owned(),
        };
        self.late.under_way.insert(number, creation);
        Creation::Later(Ticket { number, due })
    }

    /// The result of a delayed creation; `None`: it is pending, or its result was read.
    pub fn end_creation(&mut self, ticket: Ticket, now: Timestamp) -> Option<Reply<VmIdentity>> {
        self.advance(now);
        self.late.ended.remove(&ticket.number)
    }

    /// Executes the first due creation or attachment.
    pub(super) fn carry_out_late(&mut self) {
        let Some((due, number)) = self.late.due.pop_first() else {
            return;
        };
        if let Some(creation) = self.late.under_way.remove(&number) {
            let reply = self.create_as(&creation.request, creation.hit, &creation.client, due);
            self.late.ended.insert(number, reply);
        } else if let Some(attachment) = self.late.attachments.remove(&number) {
            self.attach_later(&attachment.volume, &attachment.vm, due);
        }
    }

    fn create_as(
        &mut self,
        request: &MachineRequest,
        hit: Option<Hit>,
        client: &str,
        now: Timestamp,
    ) -> Reply<VmIdentity> {
        let owner = owner(request);
        let begun = BegunCall {
            call: CloudCall::CreateMachine,
            machine: Some(owner.key()),
            client: client.to_owned(),
            hit,
        };
        self.perform(begun, now, |cloud, effect| cloud.create(owner, request, effect, now))
    }
}
