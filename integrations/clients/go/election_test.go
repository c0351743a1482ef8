package clients

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
)

// A candidate wants to become the leader.
type candidate struct {
	name    string
	cancel  context.CancelFunc
	leading chan struct{}
	stopped chan struct{}
}

func run(s *site, lease, name string) *candidate {
	ctx, cancel := context.WithCancel(s.ctx)
	s.Cleanup(cancel)
	c := &candidate{name: name, cancel: cancel, leading: make(chan struct{}), stopped: make(chan struct{})}
	elector := must(leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: lease}, Client: client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: name},
		},
		LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 200 * time.Millisecond, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(c.leading) },
			OnStoppedLeading: func() { close(c.stopped) },
		},
	}))
	go elector.Run(ctx)
	return c
}

// soon expects that a channel is closed within a time.
func soon(s *site, what string, within time.Duration, channel <-chan struct{}) {
	s.Helper()
	select {
	case <-channel:
	case <-time.After(within):
		s.Fatalf("not within %v: %s", within, what)
	}
}

func TestLeaderElection(t *testing.T) {
	s := newSite(t)
	leases := client.CoordinationV1().Leases(s.namespace)
	s.check("the first candidate leads", func(s *site) {
		soon(s, "the first leads", limit, run(s, "first", "a").leading)
		equal(s, "holder", *must(leases.Get(s.ctx, "first", metav1.GetOptions{})).Spec.HolderIdentity, "a")
	})
	s.check("a second candidate waits while the first renews", func(s *site) {
		first := run(s, "second", "a")
		soon(s, "the first leads", limit, first.leading)
		second := run(s, "second", "b")
		select {
		case <-second.leading:
			s.Fatal("two leaders")
		case <-time.After(4 * time.Second):
		}
	})
	s.check("a leader that stops releases the lease", func(s *site) {
		first := run(s, "release", "a")
		soon(s, "the first leads", limit, first.leading)
		second := run(s, "release", "b")
		first.cancel()
		soon(s, "the first stops", limit, first.stopped)
		soon(s, "the second leads before the lease expires", 2500*time.Millisecond, second.leading)
		lease := must(leases.Get(s.ctx, "release", metav1.GetOptions{}))
		if *lease.Spec.LeaseTransitions < 1 {
			s.Fatalf("%d transitions", *lease.Spec.LeaseTransitions)
		}
	})
	s.check("a leader that loses the lease stops", func(s *site) {
		first := run(s, "lost", "a")
		soon(s, "the first leads", limit, first.leading)
		s.until("another holder is written", func() bool {
			lease := must(leases.Get(s.ctx, "lost", metav1.GetOptions{}))
			lease.Spec.HolderIdentity = ptr.To("thief")
			lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
			lease.Spec.LeaseDurationSeconds = ptr.To[int32](60)
			_, err := leases.Update(s.ctx, lease, metav1.UpdateOptions{})
			return err == nil
		})
		soon(s, "the first stops", limit, first.stopped)
	})
}

func TestEvents(t *testing.T) {
	s := newSite(t)
	object := s.configMap("subject", nil)
	of := func(s *site, reason string) []corev1.Event {
		found := must(client.CoreV1().Events(s.namespace).List(s.ctx, metav1.ListOptions{
			FieldSelector: "reason=" + reason + ",involvedObject.name=subject",
		}))
		return found.Items
	}
	s.check("equal events are counted", func(s *site) {
		broadcaster := record.NewBroadcaster(record.WithContext(s.ctx))
		defer broadcaster.Shutdown()
		broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: client.CoreV1().Events("")})
		recorder := broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "clients"})
		for range 3 {
			recorder.Event(object, corev1.EventTypeNormal, "Counted", "the same text")
		}
		s.until("one event with the count 3", func() bool {
			found := of(s, "Counted")
			return len(found) == 1 && found[0].Count == 3
		})
	})
	s.check("events of events.k8s.io are events", func(s *site) {
		broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
		defer broadcaster.Shutdown()
		ok(broadcaster.StartRecordingToSinkWithContext(s.ctx))
		recorder := broadcaster.NewRecorder(scheme.Scheme, "clients")
		recorder.Eventf(object, nil, corev1.EventTypeWarning, "New", "Check", "a text with %d", 1)
		s.until("the event", func() bool {
			found := of(s, "New")
			return len(found) == 1 && found[0].Message == "a text with 1" && found[0].ReportingController == "clients"
		})
	})
}
