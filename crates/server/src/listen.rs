//! Connections: how many, how slow, and for how long.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tower::ServiceExt;

use crate::door::LocalAddr;

/// Connections at a time. A thousand streams of events leave room for others.
const MOST_CONNECTIONS: usize = 4000;
/// A request's header must be complete within this; an idle connection is closed after it
/// too.
const HEADER_TIME: Duration = Duration::from_secs(20);
/// A client that reads nothing for this long is disconnected.
const READ_TIME: Duration = Duration::from_secs(30);
/// The longest header of a request, in bytes.
const LONGEST_HEADER: usize = 64 * 1024;
/// Answers under way are waited for this long at the end.
const GRACE: Duration = Duration::from_secs(1);
/// Wait before accepting again when file descriptors ran out.
const NO_FILES: Duration = Duration::from_millis(200);

/// Takes connections until it is told to stop.
pub(crate) async fn listen(listener: TcpListener, router: Router, mut stop: watch::Receiver<bool>) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let place = Arc::clone(&places).acquire_owned();
        let taken = tokio::select! {
            () = stopped(&mut stop) => break,
            Some(_) = connections.join_next() => continue,
            // Nobody closes it.
            Ok(place) = place => tokio::select! {
                () = stopped(&mut stop) => break,
                taken = listener.accept() => taken.map(|(stream, _)| (stream, place)),
            },
        };
        let (stream, place) = match taken {
            Ok(taken) => taken,
            // Those who hung up while they waited are no trouble; a lack of files is.
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(_) => {
                sleep(NO_FILES).await;
                continue;
            }
        };
        let Ok(here) = stream.local_addr() else {
            continue;
        };
        // Events are small, and wanted at once.
        let _ = stream.set_nodelay(true);
        let (router, stop) = (router.clone(), stop.clone());
        connections.spawn(async move {
            serve(stream, here, router, stop).await;
            drop(place);
        });
    }
    let ended = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(GRACE, ended).await;
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    here: SocketAddr,
    router: Router,
    mut stop: watch::Receiver<bool>,
) {
    let service = service_fn(move |request: Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(LocalAddr(here));
        router.clone().oneshot(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .max_buf_size(LONGEST_HEADER)
        .serve_connection(TokioIo::new(WriteTimeout::new(stream)), service);
    let mut connection = std::pin::pin!(connection);
    let is_stopped = tokio::select! {
        // What goes wrong with a connection is the other end's concern.
        _ = connection.as_mut() => false,
        () = stopped(&mut stop) => true,
    };
    if is_stopped {
        connection.as_mut().graceful_shutdown();
        let _ = connection.await;
    }
}

/// Returns once it is to end; whoever could say so and is gone has said so.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

/// A connection that ends if what is written to it is not taken for too long.
struct WriteTimeout<S> {
    stream: S,
    /// Set while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    fn new(stream: S) -> Self {
        Self {
            stream,
            waiting: None,
        }
    }

    /// What came of a write, unless it waits for too long.
    fn watch<T>(
        &mut self,
        written: Poll<io::Result<T>>,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let until = || Box::pin(sleep_until(Instant::now() + READ_TIME));
        let waiting = self.waiting.get_or_insert_with(until);
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.watch(written, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, bytes);
        self.watch(written, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::routing::get;
    use futures_util::stream;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const HERE: ([u8; 4], u16) = ([127, 0, 0, 1], 1);

    /// Answers without an end, as long as someone holds the other side of this.
    fn endless() -> (Router, Arc<()>) {
        let place = Arc::new(());
        let held = Arc::clone(&place);
        let answer = move || {
            let held = Arc::clone(&held);
            async move {
                Body::from_stream(stream::repeat_with(move || {
                    let _place = &held;
                    Ok::<_, io::Error>("data: something\n\n")
                }))
            }
        };
        (Router::new().route("/", get(answer)), place)
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_does_not_read_is_dropped_with_all_that_waits_for_them() {
        let (mut client, server) = tokio::io::duplex(1000);
        let (router, place) = endless();
        let (_stop, stopped) = watch::channel(false);
        let served = tokio::spawn(serve(server, HERE.into(), router, stopped));
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .unwrap();
        let begun = Instant::now();
        served.await.unwrap();
        assert!(begun.elapsed() >= READ_TIME, "{:?}", begun.elapsed());
        assert_eq!(Arc::strong_count(&place), 1);
        // What was sent before is there, and then the end.
        let mut read = Vec::new();
        client.read_to_end(&mut read).await.unwrap();
        assert!(read.starts_with(b"HTTP/1.1 200") && read.len() <= 1000);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_reads_slowly_is_not() {
        let (mut client, server) = tokio::io::duplex(1000);
        let (router, _place) = endless();
        let (_stop, stopped) = watch::channel(false);
        let served = tokio::spawn(serve(server, HERE.into(), router, stopped));
        client
            .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            .await
            .unwrap();
        let mut some = [0; 100];
        for _ in 0..20 {
            sleep(READ_TIME / 2).await;
            client.read_exact(&mut some).await.unwrap();
        }
        assert!(!served.is_finished());
    }
}
