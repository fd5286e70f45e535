// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
)

// LeaderElection says how one of several processes with this configuration becomes the one that publishes. Its keys are
// those of Kubernetes' own components.
type LeaderElection struct {
	// ResourceName and ResourceNamespace are those of the Lease; an empty namespace is the process's own.
	ResourceName      string `yaml:"resourceName"`
	ResourceNamespace string `yaml:"resourceNamespace"`
	// LeaseDuration is how long after its last renewal others leave the Lease alone, RenewDeadline how long after that
	// its holder goes on, RetryPeriod is between renewals.
	LeaseDuration time.Duration `yaml:"leaseDuration"`
	RenewDeadline time.Duration `yaml:"renewDeadline"`
	RetryPeriod   time.Duration `yaml:"retryPeriod"`
}

func (e *LeaderElection) setDefaults() {
	e.ResourceName = "kube-eventbridge"
	e.LeaseDuration, e.RenewDeadline, e.RetryPeriod = 15*time.Second, 10*time.Second, 2*time.Second
}

// margin is what has to be between a leader's end and the expiry of its Lease.
const margin = time.Second

func (v *validator) election(c *Config) {
	e := c.LeaderElection
	if e == nil {
		return
	}
	const at = "leaderElection"
	if len(validation.IsDNS1123Subdomain(e.ResourceName)) > 0 {
		v.add(at+".resourceName", "%q is not the name of a Lease; use lower-case letters, digits, - and .", e.ResourceName)
	}
	if e.ResourceNamespace != "" && len(validation.IsDNS1123Label(e.ResourceNamespace)) > 0 {
		v.add(at+".resourceNamespace",
			"%q is not the name of a namespace; use lower-case letters, digits and -, or leave it out", e.ResourceNamespace)
	}
	switch {
	case e.LeaseDuration < 3*time.Second || e.LeaseDuration%time.Second != 0:
		v.add(at+".leaseDuration", "%v is not a duration of a Lease; write whole seconds, at least 3s, such as 15s",
			e.LeaseDuration)
	case e.RenewDeadline <= 0 || e.RenewDeadline > e.LeaseDuration-margin:
		v.add(at+".renewDeadline", "%v does not leave a leader time to stop before its Lease of %v expires; write at most %v",
			e.RenewDeadline, e.LeaseDuration, e.LeaseDuration-margin)
	case e.RetryPeriod < 100*time.Millisecond || e.RetryPeriod > e.RenewDeadline/2:
		v.add(at+".retryPeriod", "%v does not allow at least two renewals in a renewDeadline of %v; write 100ms to %v",
			e.RetryPeriod, e.RenewDeadline, e.RenewDeadline/2)
	}
	for i := range c.Pipelines {
		v.elected(fmt.Sprintf("pipelines[%d]", i), &c.Pipelines[i])
	}
}

// elected checks whether processes can take turns with a pipeline.
func (v *validator) elected(path string, p *Pipeline) {
	switch {
	case p.Sink.Stdout != nil:
		v.add(path+".sink",
			"stdout shows nobody what another process has printed, so leaderElection cannot have it; valid: nats, kafka")
	case p.Sink.Embedded != nil:
		v.add(path+".sink", "the embedded server is a process's own, so leaderElection needs another one; valid: nats, kafka")
	case p.Sink.NATS != nil:
		if t, err := encode.ParseTemplate(encode.Subject, p.Sink.NATS.Subject); err == nil && !t.PerObject() {
			v.add(path+".sink.nats.subject",
				"%q does not give each object a subject of its own, by which a former leader is kept from publishing; "+
					"with leaderElection it needs {group}, {resource}, {namespace} and {name}", p.Sink.NATS.Subject)
		}
		v.reachable(path, p, "nats")
	case p.Sink.Kafka != nil:
		v.reachable(path, p, "kafka, nats")
	}
}

// reachable checks that a checkpoint is in no file.
func (v *validator) reachable(path string, p *Pipeline, valid string) {
	if p.Checkpoint.Kafka == nil && p.Checkpoint.NATS == nil {
		v.add(path+".checkpoint",
			"a file is on one machine, and leaderElection needs a checkpoint that all processes reach; valid: %s", valid)
	}
}
