//! Several driver processes of one kind, and replicas of the controller.

use std::pin::pin;
use std::task::Poll;

use futures::poll;
use tokio::runtime::Runtime;

use super::*;

impl Raw {
    async fn of_red(registry: &Registry) -> Self {
        Self::register(registry, "red", API_VERSION).await.unwrap()
    }

    /// The operation that the process has received, if any.
    async fn operation(&mut self) -> Option<proto::Operation> {
        let message = tokio::time::timeout(Duration::from_secs(1), self.next()).await;
        match message.ok()? {
            proto::controller_side::Message::Operation(operation) => Some(operation),
            other => panic!("{other:?}"),
        }
    }

    /// Answers a deletion. The stream carries the answer only while it is read.
    async fn answer(&mut self, operation: &proto::Operation) {
        let deleted = proto::Deleted::default();
        let answer = proto::Answer {
            id: operation.id,
            result: Some(proto::answer::Result::Deleted(deleted)),
        };
        let message = Some(proto::driver_side::Message::Answer(answer));
        self.outbox.send(proto::DriverSide { message }).await.unwrap();
        assert!(self.operation().await.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn the_process_that_registered_first_receives_every_call() {
    let registry = registry();
    let mut first = Raw::of_red(&registry).await;
    let mut second = Raw::of_red(&registry).await;
    for _ in 0..3 {
        let mut call = pin!(registry.delete_machine(request("red")));
        assert!(poll!(call.as_mut()).is_pending());
        let operation = first.operation().await.unwrap();
        assert!(second.operation().await.is_none());
        first.answer(&operation).await;
        call.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_pending_call_of_an_ended_process_has_an_unknown_result_and_later_calls_reach_the_next_process() {
    let registry = registry();
    let mut first = Raw::of_red(&registry).await;
    let mut second = Raw::of_red(&registry).await;
    let mut call = pin!(registry.create_machine(request("red")));
    assert!(poll!(call.as_mut()).is_pending());
    assert!(first.operation().await.is_some());
    drop(first);
    let error = call.await.unwrap_err();
    assert_eq!(error.code, Code::Unavailable);
    assert!(error.message.contains("disconnected before it answered"), "{error}");
    assert!(second.operation().await.is_none(), "the call is not sent a second time");

    // A process that registers again is the last one.
    let mut again = Raw::of_red(&registry).await;
    let mut call = pin!(registry.delete_machine(request("red")));
    assert!(poll!(call.as_mut()).is_pending());
    let operation = second.operation().await.unwrap();
    assert!(again.operation().await.is_none());
    second.answer(&operation).await;
    call.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_process_that_reads_no_operations_makes_calls_unavailable_until_it_ends() {
    let registry = registry();
    let stalled = Raw::of_red(&registry).await;
    let mut second = Raw::of_red(&registry).await;
    let mut pending = Vec::new();
    // More than the backlog of one process.
    let full = loop {
        let mut call = Box::pin(registry.delete_machine(request("red")));
        match poll!(&mut call) {
            Poll::Pending => pending.push(call),
            Poll::Ready(result) => break result.unwrap_err(),
        }
        assert!(pending.len() < 5000, "the backlog is limited");
    };
    assert_eq!(full.code, Code::Unavailable);
    assert!(full.message.contains("reads no operations"), "{full}");
    assert!(second.operation().await.is_none(), "two processes never work at once");

    drop(stalled);
    for call in pending {
        assert_eq!(call.await.unwrap_err().code, Code::Unavailable);
    }
    let mut call = pin!(registry.delete_machine(request("red")));
    assert!(poll!(call.as_mut()).is_pending());
    let operation = second.operation().await.unwrap();
    second.answer(&operation).await;
    call.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_unusable_address_of_a_replica_does_not_end_the_registrations_with_others() {
    let registrant = Registrant::new(Echo::default(), "red", "first");
    let address = "grpc://[fe80::1%eth0]:5000".to_owned();
    assert!(crate::channel::patient(&address, None).is_err());
    assert_eq!(registrant.register_once(address.clone(), None).await, address);
}

#[tokio::test(start_paused = true)]
async fn a_standby_accepts_a_driver_and_sends_operations_on_the_same_stream_when_it_leads() {
    let registry = Registry::new(|| "session".to_owned());
    let registrant = Registrant::new(Echo::default(), "red", "first");
    let role = Mutex::new(None);
    let ready = Notify::new();
    let work = registrant.run(registry.clone().into_server(), |replica| {
        *role.lock() = Some(replica);
        ready.notify_one();
    });
    let story = async {
        ready.notified().await;
        assert_eq!(*role.lock(), Some(Replica::Standby));
        registry.attach(Arc::new(Garden));
        registry.create_machine(request("red")).await.unwrap()
    };
    let vm = tokio::select! {
        vm = story => vm,
        ended = work => panic!("{ended}"),
    };
    assert_eq!(vm.provider_id, ProviderId::new("red:///filled in"));
}

/// Serves a registry in a separate runtime, whose end closes all connections.
fn served(listener: Listener, registry: &Registry) -> Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.spawn(listener.serve(registry.clone()));
    runtime
}

#[tokio::test]
async fn a_driver_stays_registered_with_every_replica_and_with_one_that_restarts() {
    let registries = [registry(), registry()];
    let mut servers = Vec::new();
    let mut addresses = Vec::new();
    for registry in &registries {
        let listener = Listener::bind("127.0.0.1:0".parse().unwrap(), None).await.unwrap();
        addresses.push(listener.address().unwrap());
        servers.push(served(listener, registry));
    }
    let registrant = Registrant::new(Echo::default(), "red", "first");
    let urls = addresses.iter().map(|address| format!("grpc://{address}"));
    let urls: Vec<String> = urls.collect();
    let registered = |registry: Registry| async move {
        while registry.kinds().is_empty() {
            tokio::task::yield_now().await;
        }
        registry.create_machine(request("red")).await.unwrap();
    };
    let story = async {
        for registry in &registries {
            registered(registry.clone()).await;
        }
        servers.pop().unwrap().shutdown_background();
        let restarted = registry();
        // The server may not have closed its socket yet.
        let listener = loop {
            match Listener::bind(addresses[1], None).await {
                Ok(listener) => break listener,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        servers.push(served(listener, &restarted));
        registered(restarted).await;
        registered(registries[0].clone()).await;
    };
    tokio::select! {
        () = story => {}
        Err(error) = registrant.stay_registered(&urls, None) => panic!("{error}"),
    }
    servers.into_iter().for_each(Runtime::shutdown_background);
}
