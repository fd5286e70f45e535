// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// answered is an answer of Kafka, which a net.Error is too.
type answered struct{}

func (answered) Error() string {
	return "[44] Policy Violation: request parameters do not satisfy the policy"
}
func (answered) Timeout() bool   { return false }
func (answered) Temporary() bool { return false }

func dial(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }

func TestDiagnose_knows_each_kind_of_trouble(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	refused := dial(os.NewSyscallError("connect", syscall.ECONNREFUSED))
	certificate := &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}
	for _, c := range []struct {
		at   place
		err  error
		want Kind
	}{
		{atStream, apierrors.NewForbidden(pods, "", errors.New("no")), Forbidden},
		{atStream, apierrors.NewUnauthorized("who is it"), Unauthorized},
		{atStream, &apimeta.NoResourceMatchError{}, Missing},
		{atStream, apierrors.NewNotFound(pods, ""), Missing},
		{atStream, fmt.Errorf("resource %q: %w", "podz", bridge.ErrNotServed), Missing},
		{atStream, errors.New("resource tokenreviews cannot be listed and watched"), Missing},
		{atStream, apierrors.NewTooManyRequests("later", 1), Throttled},
		{atStream, &url.Error{Op: "Get", URL: "https://k", Err: certificate}, APICertificate},
		{atStream, &url.Error{Op: "Get", URL: "https://k", Err: refused}, APIServer},
		{atStream, apierrors.NewServiceUnavailable("starting"), APIServer},
		{atStream, apierrors.NewInternalError(errors.New("etcd")), APIServer},
		{atStream, io.ErrUnexpectedEOF, APIServer},
		{atStream, errors.New("the moon is full"), Unknown},

		{atBroker, refused, BrokerAway},
		{atBroker, fmt.Errorf("not connected: %w", io.EOF), BrokerAway},
		{atBroker, errors.New("not connected yet"), BrokerAway},
		{atBroker, dial(context.DeadlineExceeded), BrokerAway},
		{atBroker, &net.DNSError{Err: "no such host"}, BrokerAway},
		{atBroker, sink.ErrNotRunning, BrokerRestarting},
		{
			atBroker,
			errors.New("JetStream does not answer (is it enabled on the server and for this account?): nats: no responders " +
				"available for request"), JetStreamOff,
		},
		{atBroker, errors.New("stream KUBERNETES: nats: no responders available for request"), JetStreamOff},
		{
			atBroker, errors.New("publish k8s.x: nats: API error: code=503 err_code=10077 description=maximum bytes exceeded"),
			BrokerFull,
		},
		{atBroker, errors.New("nats: API error: code=503 err_code=10023 description=insufficient resources"), BrokerFull},
		{
			atBroker, errors.New("no acknowledgement within 5s: the embedded server cannot write: JetStream stream " +
				"'$G > KUBERNETES' write error: write /data/1.blk: no space left on device"), BrokerFull,
		},
		{
			atBroker, errors.New("[19] Not Enough Replicas: the number of insync replicas is lower than the configured minimum"),
			BrokerReplicas,
		},
		{
			atBroker, errors.New("[5] Leader Not Available: the cluster is in the middle of a leadership election"),
			BrokerReplicas,
		},
		{atBroker, errors.New("the broker refuses the credentials: nats: Authorization Violation"), BrokerCredentials},
		{atBroker, errors.New("the user's ACLs do not allow WRITE on topic kubernetes"), BrokerPermission},
		{atBroker, errors.New("nats: Permissions Violation for Publish to \"k8s.x\""), BrokerPermission},
		{atBroker, certificate, BrokerTLS},
		{atBroker, errors.New("the server requires TLS: nats: secure connection required"), BrokerTLS},
		{atBroker, errors.New("no acknowledgement within 5s"), BrokerSlow},
		{atBroker, errors.New("dial tcp kafka-tls.infra:9093: connect: connection refused"), BrokerAway},
		{atBroker, errors.New("dial tcp: lookup certificate-sasl on 10.0.0.1:53: no such host"), BrokerAway},
		{
			atBroker, fmt.Errorf("connect to tls: %w", &net.DNSError{Err: "no such host", Name: "x509", IsNotFound: true}),
			BrokerAway,
		},
		{atBroker, fmt.Errorf("sasl: %w", &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}), BrokerAway},
		{atBroker, errors.New("no space left at nats://full.example:4222: JetStream not enabled"), JetStreamOff},
		{atBroker, context.DeadlineExceeded, BrokerSlow},
		{atBroker, &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}, BrokerSlow},
		{atBroker, errors.New("read tcp 127.0.0.1:1->127.0.0.1:2: i/o timeout"), BrokerSlow},
		{atBroker | atRefusal, answered{}, BrokerRefuses},
		{atBroker | atRefusal, errors.New("nats: Permissions Violation for Publish to \"k8s.x\""), BrokerPermission},
		{atCheckpoint, answered{}, CheckpointTrouble},
		{atBroker, &sink.UnusableError{Target: "stream X", Reason: "it forgets", Advice: "use another"}, BrokerUnusable},
		{atBroker, errors.New("the moon is full"), Unknown},

		{atCheckpoint, &os.PathError{Op: "write", Path: "/x.db", Err: syscall.ENOSPC}, DiskFull},
		{atCheckpoint, errors.New("write /x.db: no space left on device"), DiskFull},
		{atCheckpoint, &os.PathError{Op: "write", Path: "/x.db", Err: syscall.EROFS}, DiskReadOnly},
		{atCheckpoint, &os.PathError{Op: "open", Path: "/x.db", Err: syscall.EACCES}, DiskPermission},
		{atCheckpoint, &os.PathError{Op: "write", Path: "/x.db", Err: syscall.EIO}, DiskFailing},
		{atCheckpoint, refused, BrokerAway},
		{atCheckpoint, errors.New("the broker refuses the credentials"), BrokerCredentials},
		{atCheckpoint, errors.New("the moon is full"), CheckpointTrouble},

		{atLease, apierrors.NewForbidden(pods, "", errors.New("no")), LeaseForbidden},
		{atLease, refused, LeaseTrouble},
	} {
		kind, advice := diagnose(c.at, fmt.Errorf("wrapped: %w", c.err), "/etc/bridge.yaml")
		assert.True(t, kind == c.want && advice != "" && !strings.Contains(advice, "FILE"),
			"%v is %s, want %s: %s", c.err, kind, c.want, advice)
	}
}

// Each is said once, in sentences; what is no error is known by its kind alone.
func TestTroubles_have_advice_each(t *testing.T) {
	seen := map[Kind]bool{}
	for _, c := range troubles {
		assert.False(t, seen[c.kind], "%s is there twice", c.kind)
		seen[c.kind] = true
		assert.Equal(t, (c.is == nil), (c.at == atFact), "%s: only what an error tells has to be known by it", c.kind)
		assert.True(t, c.kind == BrokerUnusable || strings.HasSuffix(c.advice, ".") && len(c.advice) <= 220,
			"%s: %q is no sentence, or too long for a phone (%d)", c.kind, c.advice, len(c.advice))
	}
	assert.Equal(t, "apply what `rbac RESOURCE...` prints", about("apply what `rbac --config FILE` prints", ""),
		"without a file the advice")
}
