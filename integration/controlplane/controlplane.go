// SPDX-License-Identifier: Apache-2.0

// Package controlplane runs a real kube-apiserver on a real etcd, as child processes of a test or a demo, and breaks
// them on demand.
//
// What a test sees is a Kubernetes API and nothing behind it: there is no controller manager, scheduler or kubelet.
// Deployments make no pods, namespaces stay terminating, nothing is garbage collected, aggregated roles such as view
// and edit are empty. Everything listens on 127.0.0.1 only; etcd there asks for no password.
//
// The two programs are built from the versions pinned in binaries/go.mod (see [Binaries]). They are run with os/exec
// and not by envtest's own ControlPlane, because that cannot do what faults need: its processes cannot be killed, are
// still taken for running after they ended unexpectedly, lose their certificates when they stop, and outlive a test
// that is killed. Where envtest fits it is used: package crd installs custom resource definitions with it,
// KUBEBUILDER_ASSETS means the same, and [ControlPlane.RESTConfig] is all that an envtest.Environment with
// UseExistingCluster needs.
package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/child"
	"github.com/kube-eventbridge/kube-eventbridge/internal/port"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testcert"
)

// Config says how a control plane runs. The zero value is valid.
type Config struct {
	// Binaries is a directory with kube-apiserver and etcd; if empty, [Binaries] finds or builds it.
	Binaries string
	// DataDir is where etcd's data and the certificates go; it is made if missing, must not be in use, and stays. If
	// empty it is a temporary directory that Close removes.
	DataDir string
	// RBAC makes the API server authorize by RBAC; otherwise everybody with a certificate may do everything.
	RBAC bool
	// ServiceAccounts has Pods run as service accounts, which only a controller manager makes: without one no Pod could
	// be created.
	ServiceAccounts bool
	// Addresses are further ones that the API server's certificate is for, besides 127.0.0.1. Where it listens is for
	// APIServerArgs.
	Addresses []net.IP
	// APIServerArgs are further flags of kube-apiserver, "--name=value" each; they win over those that this package
	// sets.
	APIServerArgs []string
	// Log receives what the two processes print and the progress of a build. It is written to from several goroutines,
	// one at a time.
	Log io.Writer
}

// ControlPlane is one etcd with one kube-apiserver. Ports, certificates and service account keys stay the same across
// all stops and starts, so clients made once keep working. Its methods may be called concurrently; those that start and
// stop things wait for each other.
type ControlPlane struct {
	cfg       Config
	ownsData  bool
	ca        *testcert.Authority
	files     files
	admin     *rest.Config
	apiPort   int
	etcdPort  int
	mu        sync.Mutex // guards what follows
	closed    bool
	etcd      *child.Process
	apiServer *child.Process
}

const startTimeout = 3 * time.Minute // a few seconds are usual; two busy cores may need many times that

var errClosed = errors.New("control plane is closed")

// Start starts etcd and kube-apiserver and returns once the API is ready and the namespaces default and kube-system
// exist. On an error nothing is left running. The caller must call Close; on Linux the processes also end when this
// process is killed.
func Start(ctx context.Context, cfg Config) (*ControlPlane, error) {
	if cfg.Log == nil {
		cfg.Log = io.Discard
	}
	cfg.Log = &lockedWriter{w: cfg.Log}
	if cfg.Binaries == "" {
		dir, err := Binaries(ctx, cfg.Log)
		if err != nil {
			return nil, err
		}
		cfg.Binaries = dir
	}
	c := &ControlPlane{cfg: cfg}
	if err := c.prepare(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	// Another process may take a port between the choice and the use; that ends a start at once and another choice
	// helps.
	var err error
	for range 3 {
		if err = c.startOnNewPorts(ctx); err == nil {
			return c, nil
		}
		if !strings.Contains(err.Error(), "address already in use") {
			break
		}
	}
	return nil, errors.Join(err, c.Close())
}

// prepare makes the data directory and the certificates in it.
func (c *ControlPlane) prepare() error {
	if c.cfg.DataDir == "" {
		dir, err := os.MkdirTemp("", "kube-eventbridge-controlplane-")
		if err != nil {
			return fmt.Errorf("make data directory: %w", err)
		}
		c.cfg.DataDir, c.ownsData = dir, true
	}
	certs := filepath.Join(c.cfg.DataDir, "certificates")
	if err := os.MkdirAll(certs, 0o700); err != nil {
		return fmt.Errorf("make data directory: %w", err)
	}
	var err error
	if c.ca, err = testcert.New("kube-eventbridge-test-ca"); err != nil {
		return err
	}
	c.files, err = writeFiles(c.ca, certs, c.cfg.Addresses)
	return err
}

func (c *ControlPlane) startOnNewPorts(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	if c.apiPort, err = FreePort(); err != nil {
		return err
	}
	if c.etcdPort, err = FreePort(); err != nil {
		return err
	}
	c.admin = c.User("kube-eventbridge-test-admin", "system:masters")
	if err := c.startEtcd(ctx); err != nil {
		return err
	}
	if err := c.startAPIServer(ctx); err != nil {
		return errors.Join(err, c.etcd.Kill())
	}
	return nil
}

// FreePort returns a TCP port of 127.0.0.1 that no other server is given; see [port.Free].
func FreePort() (int, error) { return port.Free() }

// KillAPIServer ends kube-apiserver with SIGKILL. One that does not run is no error.
func (c *ControlPlane) KillAPIServer() error {
	return c.locked(func() error { return c.apiServer.Kill() })
}

// StopAPIServer ends kube-apiserver with SIGTERM and waits for its end. Requests that are under way are answered, and
// open watches end some two seconds later. If ctx ends first it is killed, which is an error.
func (c *ControlPlane) StopAPIServer(ctx context.Context) error {
	return c.locked(func() error { return c.apiServer.Stop(ctx) })
}

// StartAPIServer starts a kube-apiserver that was stopped or killed, or ended by itself, on the same port and data, and
// waits until it is ready.
func (c *ControlPlane) StartAPIServer(ctx context.Context) error {
	return c.locked(func() error { return c.startAPIServer(ctx) })
}

// RestartAPIServer kills kube-apiserver and starts it again. With a single server this empties its watch caches:
// watches from before answer 410.
func (c *ControlPlane) RestartAPIServer(ctx context.Context) error {
	return c.locked(func() error { return c.restartAPIServer(ctx) })
}

// KillEtcd ends etcd with SIGKILL. The API server stays, and serves what it has in its caches. An etcd that does not
// run is no error.
func (c *ControlPlane) KillEtcd() error {
	return c.locked(func() error { return c.etcd.Kill() })
}

// StartEtcd starts an etcd that was killed, on the same port and data, and waits until it serves. The API server finds
// it again by itself, after a moment.
func (c *ControlPlane) StartEtcd(ctx context.Context) error {
	return c.locked(func() error { return c.startEtcd(ctx) })
}

// Close kills both processes, waits for their end and removes a temporary data directory. Closing twice is no error.
func (c *ControlPlane) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	err := errors.Join(c.apiServer.Kill(), c.etcd.Kill())
	if c.ownsData {
		err = errors.Join(err, os.RemoveAll(c.cfg.DataDir))
	}
	return err
}

// locked runs do while nothing else starts or stops anything.
func (c *ControlPlane) locked(do func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	return do()
}
