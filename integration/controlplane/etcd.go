// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/snapshot"
	"go.uber.org/zap"
)

// How etcd calls itself. A restored data directory must say the same as the flags, or etcd refuses it.
const (
	memberName = "etcd0"
	memberURL  = "http://localhost:2380" // no server listens there: a single member has no peers
)

// startEtcd must be called with c.mu held.
func (c *ControlPlane) startEtcd(ctx context.Context) error {
	if c.etcd.Running() {
		return fmt.Errorf("start %s: it runs already", etcdName)
	}
	p, err := startServer(filepath.Join(c.cfg.Binaries, etcdName), []string{
		"--name=" + memberName,
		"--data-dir=" + c.etcdDir(),
		"--listen-client-urls=" + c.etcdURL(),
		"--advertise-client-urls=" + c.etcdURL(),
		"--listen-peer-urls=http://127.0.0.1:0",
		"--initial-advertise-peer-urls=" + memberURL,
		"--initial-cluster=" + memberName + "=" + memberURL,
		"--unsafe-no-fsync=true", // kills end a process here, never the machine: what was written is there
		"--log-level=warn",
	}, c.cfg.Log)
	if err != nil {
		return err
	}
	c.etcd = p.Process
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if err := p.ready(ctx, func(ctx context.Context) error {
		return get(ctx, client, c.etcdURL()+"/health")
	}); err != nil {
		return errors.Join(err, p.Kill())
	}
	return nil
}

func (c *ControlPlane) etcdURL() string { return "http://127.0.0.1:" + strconv.Itoa(c.etcdPort) }

func (c *ControlPlane) etcdDir() string { return filepath.Join(c.cfg.DataDir, "etcd") }

// Compact removes the history before the current revision from etcd: older versions can no longer be listed or watched
// there. What the API server has in its watch caches it still serves; only Events, which have no cache, answer 410 at
// once.
func (c *ControlPlane) Compact(ctx context.Context) error {
	return c.withEtcd(func(client *clientv3.Client) error {
		now, err := client.Get(ctx, "/", clientv3.WithCountOnly())
		if err != nil {
			return fmt.Errorf("compact: %w", err)
		}
		if _, err := client.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
			return fmt.Errorf("compact to %d: %w", now.Header.Revision, err)
		}
		return nil
	})
}

// Snapshot saves etcd's state to a file, as an administrator's backup does. The cluster runs on meanwhile.
func (c *ControlPlane) Snapshot(ctx context.Context, path string) error {
	if _, err := snapshot.SaveWithVersion(ctx, zap.NewNop(), c.clientConfig(), path); err != nil {
		return fmt.Errorf("save snapshot: %w", err)
	}
	return nil
}

// bumpBy is added to the revision of a restored cluster: more than it can have reached since the snapshot.
const bumpBy = 1_000_000_000

// Restore puts the cluster back to a snapshot, as an administrator does after a disaster: both processes are killed,
// etcd gets the snapshot's data, both are started again. Without bump, resourceVersions go back too, and those handed
// out since are in the future; with bump they go on, far ahead, and everything from before answers 410 on a watch.
func (c *ControlPlane) Restore(ctx context.Context, path string, bump bool) error {
	tool, err := etcdutl(ctx, c.cfg.Binaries, c.cfg.Log)
	if err != nil {
		return fmt.Errorf("restore snapshot: %w", err)
	}
	return c.locked(func() error {
		if err := errors.Join(c.apiServer.Kill(), c.etcd.Kill()); err != nil {
			return err
		}
		if err := os.RemoveAll(c.etcdDir()); err != nil {
			return fmt.Errorf("remove data: %w", err)
		}
		args := []string{
			"snapshot", "restore", path, "--data-dir=" + c.etcdDir(), "--name=" + memberName,
			"--initial-advertise-peer-urls=" + memberURL, "--initial-cluster=" + memberName + "=" + memberURL,
		}
		if bump {
			args = append(args, "--mark-compacted", "--bump-revision="+strconv.Itoa(bumpBy))
		}
		if out, err := exec.CommandContext(ctx, tool, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("restore snapshot: %w\n%s", err, last(out))
		}
		if err := c.startEtcd(ctx); err != nil {
			return err
		}
		return c.startAPIServer(ctx)
	})
}

func (c *ControlPlane) clientConfig() clientv3.Config {
	return clientv3.Config{Endpoints: []string{c.etcdURL()}, DialTimeout: 10 * time.Second, Logger: zap.NewNop()}
}

func (c *ControlPlane) withEtcd(do func(*clientv3.Client) error) error {
	client, err := clientv3.New(c.clientConfig())
	if err != nil {
		return fmt.Errorf("dial etcd: %w", err)
	}
	return errors.Join(do(client), client.Close())
}

// EtcdClient returns a client of etcd, for what the API does not show. The caller closes it. It can be made while etcd
// is down.
func (c *ControlPlane) EtcdClient() (*clientv3.Client, error) {
	client, err := clientv3.New(c.clientConfig())
	if err != nil {
		return nil, fmt.Errorf("dial etcd: %w", err)
	}
	return client, nil
}
