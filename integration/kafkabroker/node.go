// SPDX-License-Identifier: Apache-2.0

package kafkabroker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/child"
)

const (
	controllerID   = 100 // of a controller that is not a broker
	logName        = "log.txt"
	propertiesName = "server.properties"
)

// node is one process of a cluster: a broker, a controller, or both.
type node struct {
	cluster            *Cluster
	id                 int
	name               string
	broker, controller bool
	ports              map[string]int    // by name of the listener
	advertised         map[string]string // what clients are told, by name of the listener

	mu      sync.Mutex                    // held while the process is started or ended
	process atomic.Pointer[child.Process] // nil before the first start
	logFrom atomic.Int64                  // where in the log its output begins
	paused  atomic.Bool
}

// path returns that of a file of the node.
func (n *node) path(name string) string { return filepath.Join(n.cluster.dir, n.name, name) }

func (n *node) locked(do func() error) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.cluster.closed:
		return errClosed
	default:
		return do()
	}
}

// start starts the process; it does not wait until it is ready.
func (n *node) start(ctx context.Context) error {
	if err := os.WriteFile(n.path(propertiesName), n.properties(), 0o600); err != nil {
		return fmt.Errorf("configure %s: %w", n.name, err)
	}
	if err := n.format(ctx); err != nil {
		return err
	}
	options := slices.Concat([]string{"-Xms64m", "-Xmx256m"}, quickOptions, n.cluster.issuer.options(),
		n.cluster.cfg.JVMOptions)
	i := n.cluster.inst
	cmd := exec.Command(i.java.path, i.args(options, "kafka.Kafka", n.path(propertiesName))...)
	cmd.Dir = n.path("")
	if err := n.run(cmd); err != nil {
		return err
	}
	n.paused.Store(false)
	return nil
}

// format makes an empty data directory, with the users of SCRAM, unless it was made before.
func (n *node) format(ctx context.Context) error {
	_, err := os.Stat(filepath.Join(n.path("data"), "meta.properties"))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	args := []string{"format", "-t", n.cluster.id, "-c", n.path(propertiesName)}
	if n.controller {
		for name, password := range n.cluster.cfg.Users {
			for _, mechanism := range []string{SCRAM256, SCRAM512} {
				args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", mechanism, name, password))
			}
		}
	}
	_, err = n.cluster.inst.run(ctx, quickOptions, "kafka.tools.StorageTool", args...)
	return err
}

// withNode calls do with the process of a broker, while nothing else starts or ends it.
func (c *Cluster) withNode(broker int, do func(n *node) error) error {
	if broker < 0 || broker >= c.cfg.Brokers {
		return fmt.Errorf("there is no broker %d", broker)
	}
	n := c.nodes[broker]
	return n.locked(func() error { return do(n) })
}

// withController is withNode for the controller beside several brokers.
func (c *Cluster) withController(do func(n *node) error) error {
	n := c.nodes[len(c.nodes)-1]
	if n.broker {
		return errors.New("the only broker is the controller")
	}
	return n.locked(func() error { return do(n) })
}

// Kill ends a broker with SIGKILL. One that does not run is no error.
func (c *Cluster) Kill(broker int) error {
	return c.withNode(broker, func(n *node) error { return n.process.Load().Kill() })
}

// Stop ends a broker with SIGTERM, whereupon it hands its partitions over, and waits for its end. If ctx ends first it
// is killed, which is an error; a paused broker cannot be stopped otherwise. One that does not run is no error.
func (c *Cluster) Stop(ctx context.Context, broker int) error {
	return c.withNode(broker, func(n *node) error { return n.process.Load().Stop(ctx) })
}

// Restart starts a broker again on the same ports and data, after killing it if it runs, and waits until it is ready:
// it serves a partition. The other brokers may be down; producer ids are only sure to be given out if there are no
// others.
func (c *Cluster) Restart(ctx context.Context, broker int) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return c.withNode(broker, func(n *node) error {
		if err := n.process.Load().Kill(); err != nil {
			return err
		}
		if err := n.start(ctx); err != nil {
			return err
		}
		if err := c.ready(ctx, []*node{n}); err != nil {
			return errors.Join(err, n.process.Load().Kill())
		}
		return nil
	})
}

// Pause stops a broker's process with SIGSTOP: its connections stay, and it does not answer. One that does not run is
// an error.
func (c *Cluster) Pause(broker int) error { return c.withNode(broker, (*node).pause) }

// PauseController is [Cluster.Pause] for the controller beside several brokers, which then learn of no new leader.
func (c *Cluster) PauseController() error { return c.withController((*node).pause) }

func (n *node) pause() error {
	p := n.process.Load()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	n.paused.Store(true)
	return awaitStopped(p.PID())
}

// awaitStopped waits until all threads of a process are stopped: a signal takes a while on a busy machine. Where there
// is no /proc, it does not wait.
func awaitStopped(pid int) error {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || !slices.ContainsFunc(threads, runs) {
			return err
		}
	}
	return errors.New("its threads still run a minute after SIGSTOP")
}

// runs reports whether a thread is not stopped, by the state behind the name in its file of /proc.
func runs(stat string) bool {
	text, err := os.ReadFile(stat)
	at := bytes.LastIndexByte(text, ')') + 2
	return err == nil && at < len(text) && text[at] != 'T'
}

// Resume lets a broker that was paused go on. One that was not is no error.
func (c *Cluster) Resume(broker int) error { return c.withNode(broker, (*node).resume) }

// ResumeController is [Cluster.Resume] for the controller beside several brokers.
func (c *Cluster) ResumeController() error { return c.withController((*node).resume) }

func (n *node) resume() error {
	err := n.process.Load().Signal(syscall.SIGCONT)
	if err == nil {
		n.paused.Store(false)
	}
	return err
}

// PID returns the id of a broker's process, to measure it, and 0 if it does not run.
func (c *Cluster) PID(broker int) int {
	if broker < 0 || broker >= c.cfg.Brokers {
		return 0
	}
	p := c.nodes[broker].process.Load()
	if !p.Running() {
		return 0
	}
	return p.PID()
}

// serving returns the brokers that run and are not paused.
func (c *Cluster) serving() []*node {
	var up []*node
	for _, n := range c.brokers() {
		if n.process.Load().Running() && !n.paused.Load() {
			up = append(up, n)
		}
	}
	return up
}

func (c *Cluster) brokers() []*node { return c.nodes[:c.cfg.Brokers] }
