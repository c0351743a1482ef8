//! Clients that flood, stall or send garbage do not affect other clients.

use std::time::Duration;

use clock::Seed;
use fakecloud::proto::{InfoRequest, WatchRequest};
use futures::stream::{FuturesUnordered, StreamExt};
use mcm_driver::Driver;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::process::{LIMIT, Process, request};

/// Maximum waiting time of a well-behaved client.
const PATIENCE: Duration = Duration::from_secs(10);

/// Checks that a well-behaved client is served.
async fn is_served(process: &Process) {
    let driver = process.driver();
    let work = async {
        driver.create_machine(request("well-behaved")).await.unwrap();
        driver.get_machine_status(request("well-behaved")).await.unwrap();
        driver.delete_machine(request("well-behaved")).await.unwrap();
        process.control().info(InfoRequest {}).await.unwrap();
    };
    tokio::time::timeout(PATIENCE, work)
        .await
        .expect("others keep a well-behaved client waiting");
}

#[tokio::test]
async fn garbage_does_not_affect_other_clients() {
    let process = Process::start(None, 1).await;
    let mut stream = Seed::new(1).stream("garbage");
    let mut connections = Vec::new();
    for index in 0..50 {
        let mut connection = TcpStream::connect(&process.address).await.unwrap();
        let mut bytes: Vec<u8> = (0..2000).map(|_| stream.below(256) as u8).collect();
        if index % 2 == 0 {
            // After the HTTP/2 preface, as frames.
            bytes.splice(0..0, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".iter().copied());
        }
        // The server may close the connection meanwhile.
        connection.write_all(&bytes).await.ok();
        connections.push(connection);
    }
    is_served(&process).await;
}

#[tokio::test]
async fn stalled_clients_do_not_affect_other_clients() {
    let process = Process::start(None, 1).await;
    let mut stalled = Vec::new();
    for index in 0..200 {
        let mut connection = TcpStream::connect(&process.address).await.unwrap();
        if index % 2 == 0 {
            connection.write_all(b"PRI * HTTP/2.0\r\n\r\nSM").await.unwrap();
        }
        stalled.push(connection);
    }
    // The clients request the log and never read it.
    let mut unread = Vec::new();
    for _ in 0..20 {
        unread.push(process.control().watch(WatchRequest { after: 0 }).await.unwrap());
    }
    let driver = process.driver();
    for index in 0..200 {
        driver.create_machine(request(&format!("m-{index}"))).await.unwrap();
    }
    is_served(&process).await;
    assert_eq!((stalled.len(), unread.len()), (200, 20));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_does_not_affect_other_clients() {
    let process = Process::start(None, 1).await;
    let flood = process.driver();
    let calls = (0..5000).map(|index| flood.create_machine(request(&format!("m-{index}"))));
    let mut calls: FuturesUnordered<_> = calls.collect();
    let flooding = async {
        let mut answered = 0;
        while let Some(answer) = calls.next().await {
            answer.unwrap();
            answered += 1;
        }
        answered
    };
    let (answered, ()) = tokio::join!(tokio::time::timeout(LIMIT, flooding), is_served(&process));
    assert_eq!(answered.expect("the flood is not answered"), 5000);
}
