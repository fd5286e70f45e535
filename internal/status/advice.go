// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/inert"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Kind names a trouble.
type Kind string

// The kinds.
const (
	Forbidden           Kind = "forbidden"
	Unauthorized        Kind = "unauthorized"
	Missing             Kind = "missing"
	Throttled           Kind = "throttled"
	APICertificate      Kind = "apiServerCertificate"
	APIServer           Kind = "apiServer"
	BrokerUnusable      Kind = "brokerUnusable"
	BrokerCredentials   Kind = "brokerCredentials"
	BrokerPermission    Kind = "brokerPermission"
	BrokerTLS           Kind = "brokerTLS"
	JetStreamOff        Kind = "jetStream"
	BrokerFull          Kind = "brokerFull"
	BrokerReplicas      Kind = "brokerReplicas"
	BrokerSlow          Kind = "brokerSlow"
	BrokerRestarting    Kind = "restarting"
	BrokerAway          Kind = "brokerAway"
	BrokerRefuses       Kind = "brokerRefuses"
	SubjectRefused      Kind = "subjectRefused"
	DiskFull            Kind = "diskFull"
	DiskReadOnly        Kind = "diskReadOnly"
	DiskPermission      Kind = "diskPermission"
	DiskFailing         Kind = "diskFailing"
	CheckpointTrouble   Kind = "checkpoint"
	LeaseForbidden      Kind = "leaseForbidden"
	LeaseTrouble        Kind = "lease"
	StandbyTrouble      Kind = "standby"
	ConfigurationFailed Kind = "configuration"
	Unsettled           Kind = "unsettled"
	BufferFull          Kind = "bufferFull"
	Rejected            Kind = "rejected"
	Gapped              Kind = "gap"
	LogLoss             Kind = "logLoss"
	OtherWriter         Kind = "otherWriter"
	CheckpointInUse     Kind = "checkpointInUse"
	PipelineEnded       Kind = "pipelineEnded"
	ReplicaStopped      Kind = "replicaHeld"
	ReplicaEnded        Kind = "replicaEnded"
	ReplicaLog          Kind = "replicaLog"
	ReplicaLag          Kind = "replicaLag"
	ReplicaParked       Kind = "replicaParked"
	Unknown             Kind = "unknown"
)

// place is where a trouble was met.
type place uint8

const (
	atStream place = 1 << iota
	atBroker
	atCheckpoint
	atLease
	// atRefusal: the broker has answered.
	atRefusal
	// atFact: it is no error that tells, but what is counted.
	atFact
)

// trouble is a kind, its title, how it is known by its error, and what to do. FILE stands for the configuration's.
type trouble struct {
	kind   Kind
	title  string
	at     place
	is     func(error) bool
	advice string
}

// troubles are all kinds. The first that fits an error is it.
var troubles = []trouble{
	{
		Forbidden, "The API server forbids to read a resource", atStream, apierrors.IsForbidden,
		"Let the bridge list and watch this: apply what `kube-eventbridge rbac --config FILE --service-account NAME` " +
			"prints, or leave the resource out.",
	},
	{
		Unauthorized, "The API server refuses the credentials", atStream, apierrors.IsUnauthorized,
		"The API server does not take the bridge's credentials: check its service account, or the kubeconfig and the " +
			"context that it uses.",
	},
	{
		Missing, "A resource is not served", atStream, unserved,
		"Install the CustomResourceDefinition, or correct the name in the configuration; `kubectl api-resources` lists " +
			"what there is. The bridge goes on asking.",
	},
	{
		Throttled, "The API server asks for patience", atStream, apierrors.IsTooManyRequests,
		"The API server asks for patience, and the bridge waits. If that stays so, see its priority and fairness settings " +
			"(FlowSchema) and its load.",
	},
	{
		APICertificate, "The API server's certificate is not trusted", atStream, badCertificate,
		"The API server's certificate is not trusted: check certificate-authority and server in the kubeconfig, and " +
			"whether the certificate has expired.",
	},
	{
		APIServer, "The API server is away", atStream, away,
		"Check that the API server runs and can be reached from here: `kubectl get --raw /readyz`. The bridge goes on by " +
			"itself where it stopped.",
	},

	{
		CheckpointInUse, "Another process uses the checkpoint", atCheckpoint, inUse,
		"Stop the other process if it is there by mistake, or set leaderElection for both. This process publishes when the " +
			"other one has ended.",
	},
	{
		DiskFull, "The disk of the checkpoint is full", atCheckpoint,
		isAny([]error{syscall.ENOSPC, syscall.EDQUOT}, "no space left", "quota exceeded"),
		"Make room on the disk of the checkpoint (dataDir, checkpoint.file.path). Events go on meanwhile; a restart would " +
			"read again what came since.",
	},
	{
		DiskReadOnly, "The disk of the checkpoint is read-only", atCheckpoint,
		isAny([]error{syscall.EROFS}, "read-only file system"),
		"The disk of the checkpoint is read-only: see why the kernel or the volume made it so, and have it mounted for " +
			"writing (dataDir, checkpoint.file.path).",
	},
	{
		DiskPermission, "The checkpoint may not be written", atCheckpoint, isAny([]error{fs.ErrPermission}),
		"Let the bridge's user write the checkpoint and its directory (dataDir, checkpoint.file.path; in a Pod " +
			"securityContext.fsGroup).",
	},
	{
		DiskFailing, "The disk of the checkpoint fails", atCheckpoint, isAny([]error{syscall.EIO}, "input/output error"),
		"The disk of the checkpoint fails: look at the machine's log, and replace the disk or the volume.",
	},

	{
		LeaseForbidden, "The Lease may not be written", atLease, apierrors.IsForbidden,
		"Let the bridge get, create and update its Lease: apply what `kube-eventbridge rbac --config FILE " +
			"--service-account NAME` prints.",
	},
	{
		LeaseTrouble, "The Lease cannot be renewed", atLease, func(error) bool { return true },
		"Check that the API server runs and can be reached from here: `kubectl get --raw /readyz`. A process that cannot " +
			"renew its Lease stops publishing, and goes on when it has it again.",
	},

	// It says itself what to do.
	{BrokerUnusable, "The broker cannot be used as it is", atBroker | atCheckpoint, unusable, ""},
	{
		BrokerRestarting, "The pipeline starts again", atBroker,
		func(err error) bool { return errors.Is(err, sink.ErrNotRunning) },
		"The pipeline starts again from its checkpoint by itself; the log says why.",
	},
	{
		JetStreamOff, "JetStream does not answer", atBroker | atCheckpoint,
		isAny(nil, "JetStream does not answer", "JetStream not enabled", "no responders", "does not answer"),
		"Switch JetStream on, on the server and for the account (`nats account info` shows it), and see that the stream " +
			"has a leader (`nats stream report`).",
	},
	{
		BrokerFull, "The broker is full", atBroker | atCheckpoint,
		isAny(nil, "maximum bytes exceeded", "maximum messages exceeded", "maximum messages per subject",
			"insufficient storage", "insufficient resources", "resource limits exceeded", "no space left"),
		"The stream or the broker's disk is full: raise its limits, or let it remove old events (nats stream edit STREAM " +
			"--max-bytes, --max-age, --discard old; retention.ms of a topic), or make room. Nothing is lost meanwhile.",
	},
	{
		BrokerReplicas, "The broker lacks replicas", atBroker | atCheckpoint,
		isAny(nil, "not enough replicas", "not enough in-sync", "not enough replicas after append", "no leader",
			"leader not available", "not available for partition", "no suitable peers"),
		"Too few of the broker's replicas are there: bring its other servers back. Nothing is lost meanwhile.",
	},
	{
		BrokerCredentials, "The broker refuses the credentials", atBroker | atCheckpoint,
		isAny(nil, "refuses the credentials", "authorization violation", "authentication", "nkey", "sasl",
			"user credentials"),
		"The broker does not take the credentials: renew them where the configuration says they are (sink); they are read " +
			"again by themselves or with a restart.",
	},
	{
		BrokerPermission, "The broker does not permit something", atBroker | atCheckpoint,
		isAny(nil, "permissions violation", "acls do not allow", "not authorized", "authorization failed"),
		"Permit the bridge's user at the broker what `kube-eventbridge validate --cluster --config FILE` says is missing.",
	},
	{
		BrokerTLS, "The broker and the bridge disagree on TLS", atBroker | atCheckpoint,
		func(err error) bool { return badCertificate(err) || mentions(err, "tls", "x509", "certificate") },
		"The bridge and the broker do not agree on TLS: check sink.tls (CA, certificate, server name) and whether a " +
			"certificate has expired.",
	},
	{
		BrokerSlow, "The broker does not answer in time", atBroker | atCheckpoint, slow,
		"The broker can be reached, and does not answer in time: see its load, its disk, and its other replicas. Nothing " +
			"is lost meanwhile.",
	},
	{BrokerAway, "The broker is away", atBroker | atCheckpoint, func(err error) bool {
		return away(err) || mentions(err, "not connected", "no servers available", "connection closed",
			"closed the connection", "dial ")
	}, "Start the broker, or see why it cannot be reached from here: its address (sink), DNS, a firewall. The bridge " +
		"goes on by itself, and nothing is lost as long as the API server has the history."},
	{
		CheckpointTrouble, "The checkpoint cannot be read or saved", atCheckpoint, func(error) bool { return true },
		"Until the checkpoint can be read and saved again, a restart repeats work; see the bridge's log, and " +
			"`kube-eventbridge checkpoint show --config FILE`.",
	},

	{
		PipelineEnded, "A pipeline has ended", atFact, nil,
		"Cure what the text says. The pipeline is tried again by itself, a quarter of an hour later at most; a restart of " +
			"the process tries it at once. It continues where it was. The other pipelines go on.",
	},
	{
		BrokerRefuses, "The broker refuses what is published", atRefusal, func(error) bool { return true },
		"The broker answers, and its answer says why it refuses: raise the limit, or change the policy, that the text " +
			"names. What was refused is tried again, and comes into the log then.",
	},
	{
		SubjectRefused, "The broker refuses a subject", atFact, nil,
		"The broker takes nothing of some object, not even the word that it was rejected, or no marker of a stream, which " +
			"waits for it: let the bridge publish under all of the pipeline's subjects or topics.",
	},
	{
		StandbyTrouble, "This process could not take over", atFact, nil,
		"Make the brokers of the sinks and of the checkpoints reachable from here: their addresses, credentials and " +
			"permissions. A takeover by this process would publish nothing until then.",
	},
	{
		ConfigurationFailed, "The configuration file is not used as it is", atFact, nil,
		"Correct the file; `kube-eventbridge validate --config FILE` says what is wrong. If the text says so, restart the " +
			"process: not every key can change while it runs. Until then the bridge goes on with the file before.",
	},
	{
		Unsettled, "Changes wait for the broker", atFact, nil,
		"More comes than the broker takes, or it is slow: see its load and disk, and compare events per second with what " +
			"it can do. Nothing is lost while the API server has the history.",
	},
	{
		BufferFull, "The buffer is full", atFact, nil,
		"Reading waits for the broker. If that lasts for minutes, history may expire: make the broker faster, or raise " +
			"buffer.maxBytes.",
	},
	{
		Rejected, "Events were rejected", atFact, nil,
		"The broker refuses such events for good. If it takes that, a rejection stands in their place. Raise its limit " +
			"(max_payload, max.message.bytes), set oversize: store or metadata, or permit the subject.",
	},
	{ // gapAdvices say more
		Gapped, "There was a gap", atFact, nil,
		"Intermediate states may be missing; final states and deletions are in the log. The gap event in the log has more.",
	},
	{
		LogLoss, "The log has lost events", atFact, nil,
		"The broker lost events that it had acknowledged, and the bridge published again what it could: see whether a " +
			"disk, a restored backup or a deleted stream was the reason.",
	},
	{
		OtherWriter, "Another process publishes as this pipeline", atFact, nil,
		"Two bridges publish as one pipeline: stop one of the two, or give both one checkpoint in NATS or Kafka and set " +
			"leaderElection.",
	},
	{
		ReplicaStopped, "A replica is held", atFact, nil,
		"Find out why the objects went in the source, or why its versions begin again. If that was meant, let the replica " +
			"go on: `kube-eventbridge replicate resume NAME`, or on the status page.",
	},
	{
		ReplicaEnded, "A replica has ended", atFact, nil,
		"Cure what the text says. The replica is tried again by itself, a quarter of an hour later at most; a restart of " +
			"the process tries it at once. The other replicas go on.",
	},
	{
		ReplicaLog, "The log of a replica does not answer", atFact, nil,
		"Start the broker, or see why it does not answer: its address (replicas.from), credentials, permissions. The " +
			"replica goes on by itself where it stopped.",
	},
	{
		ReplicaLag, "A replica is behind its log", atFact, nil,
		"Look at the writes by result, and at the load of the API server that is written to. The replica goes on by " +
			"itself, and nothing is lost.",
	},
	{
		ReplicaParked, "Objects of a replica wait", atFact, nil,
		"They are not as in the source. `kube-eventbridge replicate status` says more of each, and docs/replicate.md " +
			"what to do for each reason.",
	},
	{Unknown, "Something is wrong", atFact, nil, "See the bridge's log."},
}

// gapAdvices are what to do about a gap, by its cause.
var gapAdvices = map[source.Cause]string{
	source.CauseExpired: "The API server had forgotten changes before they were read. Only states in between may be " +
		"missing. If it was restarted, or a CRD was changed, do nothing; else see why the bridge was away or slow.",
	source.CauseRestored: "etcd was restored, or the cluster was built again. All is published again under a new epoch, " +
		"and consumers that compare sequence need nothing. If it was not meant, ask who runs the cluster.",
	source.CauseRebuilt: "The API of this resource was installed again, or its storage restored. All is published again " +
		"under a new epoch. If it was not meant, ask who runs that API.",
	source.CauseLogLost: "The broker lost events that it had acknowledged, and what exists is published again: see " +
		"whether a disk, a restored backup or a deleted stream was the reason.",
	source.CauseCheckpointLost: "The checkpoint was gone or did not belong to the log, and was made again from the " +
		"log. If it was not reset, see that its storage is kept and that no other bridge publishes as this pipeline.",
	source.CauseSelection: "The entry in the file selects other objects, or another version, than before. Do nothing: " +
		"the log has what is selected now.",
	source.CauseResourceGone: "The API server did not serve this resource for a time. Final states and deletions are in " +
		"the log. If its definition or its API was not removed on purpose, see why it was away.",
	source.CauseAudit: "An audit found that the log was not what exists, and the log was corrected. If etcd was not " +
		"restored, keep the bridge's log and report it.",
}

// adviceOnGap returns what to do about a gap.
func adviceOnGap(cause source.Cause) string {
	return cmp.Or(gapAdvices[cause], adviceOf(Gapped, ""))
}

// diagnose returns what kind of trouble an error is where it was met, and what to do about it.
func diagnose(at place, err error, file string) (Kind, string) {
	if at&(atBroker|atCheckpoint) != 0 && unreached(err) { // whatever its name is like
		return BrokerAway, adviceOf(BrokerAway, file)
	}
	for _, t := range troubles {
		if t.at&at == 0 || !t.is(err) {
			continue
		}
		var u *sink.UnusableError
		if t.kind == BrokerUnusable && errors.As(err, &u) {
			return t.kind, inert.Line(u.Advice)
		}
		return t.kind, about(t.advice, file)
	}
	return Unknown, adviceOf(Unknown, file)
}

// titleOf returns the title of a kind.
func titleOf(k Kind) string {
	i := slices.IndexFunc(troubles, func(t trouble) bool { return t.kind == k })
	return troubles[i].title
}

// adviceOf returns what to do about a kind.
func adviceOf(k Kind, file string) string {
	for _, t := range troubles {
		if t.kind == k {
			return about(t.advice, file)
		}
	}
	panic("BUG: no advice for " + string(k))
}

func about(advice, file string) string {
	if file == "" {
		advice = strings.ReplaceAll(advice, "--config FILE", "RESOURCE...")
	}
	return strings.ReplaceAll(advice, "FILE", file)
}

func isAny(targets []error, texts ...string) func(error) bool {
	return func(err error) bool {
		for _, t := range targets {
			if errors.Is(err, t) {
				return true
			}
		}
		return mentions(err, texts...)
	}
}

// names are what users choose: addresses, and hosts that are looked up. They say nothing of what is wrong.
var names = regexp.MustCompile(`lookup \S+|\S*(://|\w\.\w|:\d)\S*`)

// mentions reports whether an error's text has one of the texts in it, in any case, besides names: brokers' errors are
// known here by their text alone.
func mentions(err error, texts ...string) bool {
	text := strings.ToLower(names.ReplaceAllString(err.Error(), ""))
	for _, t := range texts {
		if strings.Contains(text, strings.ToLower(t)) {
			return true
		}
	}
	return false
}

// inUse reports whether another process uses a checkpoint.
func inUse(err error) bool {
	var held *checkpoint.HeldError
	return errors.As(err, &held)
}

// slow reports whether who was reached has not answered.
func slow(err error) bool {
	late := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		mentions(err, "no acknowledgement within", "deadline exceeded", "timed out", "i/o timeout")
	return late && !mentions(err, "dial ")
}

func unusable(err error) bool {
	var u *sink.UnusableError
	return errors.As(err, &u)
}

// unserved reports whether the API server has answered that there is nothing to be read.
func unserved(err error) bool {
	return errors.Is(err, bridge.ErrNotServed) || apimeta.IsNoMatchError(err) || apierrors.IsNotFound(err) ||
		apierrors.IsMethodNotSupported(err) ||
		mentions(err, "cannot be listed and watched", "no resource", "not found in")
}

func badCertificate(err error) bool {
	var verification *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &verification) || errors.As(err, &unknown) || errors.As(err, &name) || errors.As(err, &invalid)
}

// unreached reports whether there is no connection to whom was to be asked.
func unreached(err error) bool {
	var lookup *net.DNSError
	var dial *net.OpError
	return errors.As(err, &lookup) || errors.As(err, &dial) && dial.Op == "dial"
}

// away reports whether no server answers, or a server that is starting, ending, or overloaded.
func away(err error) bool {
	var network *net.OpError // not net.Error: an answer of Kafka is one
	var request *url.Error
	return errors.As(err, &network) || errors.As(err, &request) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsInternalError(err) ||
		mentions(err, "connection refused", "connection reset", "no such host", "no route to host",
			"server is currently unable", "apiserver not ready")
}
