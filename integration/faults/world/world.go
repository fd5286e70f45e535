// SPDX-License-Identifier: Apache-2.0

// Package world is everything around a bridge, and breaks it: a real API server behind a proxy, a real NATS server
// behind another or three real Kafka brokers behind three, a disk for the checkpoint, and the bridge itself as a child
// process.
//
// The bridge is the ordinary program and knows nothing of this package. Where a fault has to strike at a certain
// moment, the moment is seen from outside: in what passes the proxies, and in what is written to the disk, which is a
// FUSE file system of this process. Only the bridge talks through the proxies; whoever makes changes or reads the log
// reaches the servers directly, and must expect that they are away for a while.
//
// A fault returns when it is over and everything runs again; it does not wait until the bridge has caught up. Faults
// are injected one after the other; those of different parts of the world can be made one, which begins both at once
// ([Fault.With]).
package world

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane/crd"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/selection"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

// What the bridge's file says.
const (
	// Cluster is the name of the cluster in events.
	Cluster = "world"
	// Pipeline is the name of the first pipeline, of which the faults and figures are.
	Pipeline = "faults"
	// Stream is the JetStream stream that the log is in.
	Stream = "KUBERNETES"
	// DuplicateWindow is for how long the broker knows a message again: as short as the bridge accepts, so that a fault
	// can outlast it.
	DuplicateWindow = 10 * time.Second
	// ackTimeout is after how long the bridge takes a message for unanswered.
	ackTimeout = 5 * time.Second
)

// Config says what a world is made of. Resources or Selection is required.
type Config struct {
	// Resources is the list under resources of the bridge's only pipeline, in YAML.
	Resources string
	// Selection stands for Resources where what the file selects is to change. Selects is called, if it is not nil,
	// before that, with all that the bridge may read from then on, and when it reads certainly what it is to read.
	Selection selection.Selection
	Selects   func(ctx context.Context, may ...selection.Selection) error
	// Second, if it is not nil, is a second pipeline. Meanwhile is called, if it is not nil, while only that is broken:
	// the first one has to go on. When says what is broken.
	Second    *Second
	Meanwhile func(ctx context.Context, when string) error
	// Forgets is called, if it is not nil, when the log and the checkpoint have become what they were at a time.
	Forgets func(since time.Time)
	// Settings are further keys of the bridge's file, in YAML; none that the world writes itself. They may be empty.
	Settings string
	// CRDs are installed before the bridge starts. The faults of custom resources take the first one, and delete all
	// its objects with it.
	CRDs []*apiextensionsv1.CustomResourceDefinition
	// Broker is NATS, which "" stands for, or Kafka, and Checkpoint where the bridge keeps its state: CheckpointFile,
	// CheckpointNATS or CheckpointKafka, of which the last two need that broker. Without one it is a file, or with
	// replicas the broker's.
	Broker, Checkpoint string
	// Replicas is how many bridges run, of which one leads; of 0 there is one, which needs no Lease. They cannot have a
	// file as their checkpoint.
	Replicas int
	// Dir is where everything is kept that a person may want to see afterwards; it must exist, and stays. If empty, it
	// is a temporary directory that Close removes.
	Dir string
	// Binary is the bridge; if empty it is built from the tree.
	Binary string
	// ClockBinary is the program of package clock; without it the clock does not jump.
	ClockBinary string
	// Restoring is called before etcd is put back, when the API server is dead and etcd is not; Restored after it, with
	// the file of the snapshot. Who records what etcd has needs both; they may be nil.
	Restoring func(context.Context) error
	Restored  func(snapshot string) error
	// Log receives what kube-apiserver and etcd print, and the progress of builds.
	Log io.Writer
}

// World is a running world. Its methods may be called concurrently, but while a fault is injected no other caller
// injects one, or starts or ends the bridge.
type World struct {
	cfg     Config
	dir     string
	ownsDir bool

	control *controlplane.ControlPlane
	admin   *rest.Config
	api     *apiProxy
	broker  backend
	second  *second // nil if there is none
	wire    *wire
	disk    *disk
	// replicas are made by Start.
	replicas []*replica
	peak     *peak

	mu        sync.Mutex // guards what follows
	resources string     // what the file has under resources
	written   int        // how often that was changed
	wrote     time.Time  // when that was written
	leads     int        // the index of the replica that leads, as far as is known
	binary    string
	clock     string    // what the names of the files with the bridges' clocks begin with; empty where they are right
	runs      []string  // what each run of the bridge printed, by file
	aside     []*Bridge // processes that were replaced and have not ended
	events    []Event
	caches    []CacheFilled
	removed   []Removed
	takeovers []Takeover
}

// Start starts everything but the bridge. On an error nothing is left running. The caller must call Close.
func Start(ctx context.Context, cfg Config) (*World, error) {
	w := &World{cfg: cfg, dir: cfg.Dir, binary: cfg.Binary, resources: cfg.Resources}
	if cfg.Selection != nil {
		w.resources = cfg.Selection.YAML()
	}
	if w.cfg.Log == nil {
		w.cfg.Log = io.Discard
	}
	w.cfg.Broker = cmp.Or(w.cfg.Broker, NATS)
	if w.cfg.Replicas > 0 {
		w.cfg.Checkpoint = cmp.Or(w.cfg.Checkpoint, w.cfg.Broker)
	}
	w.cfg.Checkpoint = cmp.Or(w.cfg.Checkpoint, CheckpointFile)
	for _, step := range []func(context.Context) error{
		w.prepare, w.startKubernetes, w.startBroker, w.startSecond, w.makeReplicas,
	} {
		if err := step(ctx); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	return w, nil
}

func (w *World) prepare(ctx context.Context) (err error) {
	if w.dir == "" {
		if w.dir, err = os.MkdirTemp("", "kube-eventbridge-world-"); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
		w.ownsDir = true
	}
	if w.binary == "" {
		if w.binary, err = rig.Program(ctx, w.cfg.Log); err != nil {
			return err
		}
	}
	w.peak = newPeak(ctx, w)
	real, seen := filepath.Join(w.dir, "disk"), filepath.Join(w.dir, seenName)
	if w.cfg.Checkpoint != CheckpointFile {
		w.disk = &disk{real: real, seen: real}
		return nil
	}
	w.disk, err = newDisk(real, seen)
	return err
}

// startKubernetes starts a control plane in which the bridge may read everything, and nothing else.
func (w *World) startKubernetes(ctx context.Context) (err error) {
	w.control, err = controlplane.Start(ctx, controlplane.Config{
		RBAC: true, Log: &cacheLog{world: w, to: w.cfg.Log},
		APIServerArgs: []string{
			"--request-timeout=5s", // a graceful stop waits so long for open watches
			cacheFlag,
		},
	})
	if err != nil {
		return err
	}
	w.admin = w.control.RESTConfig()
	if err := w.grant(ctx); err != nil {
		return err
	}
	if len(w.cfg.CRDs) > 0 {
		var copies []*apiextensionsv1.CustomResourceDefinition // they come back as the API server has them
		for _, c := range w.cfg.CRDs {
			copies = append(copies, c.DeepCopy())
		}
		if err := crd.Install(ctx, w.admin, copies...); err != nil {
			return err
		}
	}
	cert, err := w.control.ServingCertificate()
	if err != nil {
		return err
	}
	w.api, err = newAPIProxy(w.control.User(bridgeUser), cert)
	return err
}

func (w *World) startBroker(ctx context.Context) error {
	if w.cfg.Broker == Kafka {
		b, err := newKafkaBackend(ctx, filepath.Join(w.dir, "kafka"), w.cfg.Replicas, w.cfg.Log)
		if err != nil {
			return err
		}
		w.broker, w.wire = b, b.wire()
		return nil
	}
	b, err := newNATSBackend(filepath.Join(w.dir, "nats"))
	if err != nil {
		return err
	}
	w.broker, w.wire = b, b.wire()
	return nil
}

// checkpoint is what the bridge's file says of its checkpoint.
func (w *World) checkpoint() string {
	switch w.cfg.Checkpoint {
	case CheckpointKafka:
		return fmt.Sprintf("kafka: {topic: %s, replicas: %d}", topicCheckpoint, kafkaBrokers)
	case CheckpointNATS:
		return fmt.Sprintf("nats: {bucket: %s}", bucketCheckpoint)
	}
	return fmt.Sprintf("file: {path: %q}", filepath.Join(w.disk.seen, checkpointName))
}

// Remove removes the directory of a world whose process was killed, and what it has left mounted there. What is not
// there is no error.
func Remove(dir string) error {
	return errors.Join(detach(filepath.Join(dir, seenName)), os.RemoveAll(dir))
}

// Close ends everything that Start and the faults have started, and waits for its end.
func (w *World) Close() error {
	errs := []error{w.KillBridge(), w.killAside()}
	w.peak.close()
	for _, r := range w.replicas {
		errs = append(errs, r.close())
	}
	if w.api != nil {
		errs = append(errs, w.api.close())
	}
	if w.broker != nil {
		errs = append(errs, w.broker.close())
	}
	w.second.close()
	if w.control != nil {
		errs = append(errs, w.control.Close())
	}
	if w.disk != nil {
		errs = append(errs, w.disk.close())
	}
	if w.ownsDir {
		errs = append(errs, os.RemoveAll(w.dir))
	}
	return errors.Join(errs...)
}

// ControlPlane is the API server and etcd, without the proxy.
func (w *World) ControlPlane() *controlplane.ControlPlane { return w.control }

// RESTConfig is for a user who may do everything, without the proxy. It is the caller's to change.
func (w *World) RESTConfig() *rest.Config { return rest.CopyConfig(w.admin) }

// Dir is where everything is kept.
func (w *World) Dir() string { return w.dir }

// CheckpointFiles are the files that the bridge keeps its state in, and copies that faults have put aside; not on the
// disk that faults slow down.
func (w *World) CheckpointFiles() ([]string, error) {
	return filepath.Glob(filepath.Join(w.disk.real, "*"))
}

// checkpointFile is the checkpoint, not on the disk that faults slow down.
func (w *World) checkpointFile() string { return filepath.Join(w.disk.real, checkpointName) }

const (
	checkpointName = "checkpoint.db"
	// seenName is where the bridge sees the checkpoint's disk.
	seenName = "checkpoint"
)
