// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
)

// startAPIServer must be called with c.mu held.
func (c *ControlPlane) startAPIServer(ctx context.Context) error {
	if c.apiServer.Running() {
		return fmt.Errorf("start %s: it runs already", apiServerName)
	}
	p, err := startServer(filepath.Join(c.cfg.Binaries, apiServerName), c.apiServerArgs(), c.cfg.Log)
	if err != nil {
		return err
	}
	c.apiServer = p.Process
	client, err := rest.HTTPClientFor(c.admin)
	if err == nil {
		defer client.CloseIdleConnections()
		err = p.ready(ctx, func(ctx context.Context) error { return c.apiReady(ctx, client) })
	}
	if err != nil {
		return errors.Join(err, p.Kill())
	}
	return nil
}

func (c *ControlPlane) restartAPIServer(ctx context.Context) error {
	if err := c.apiServer.Kill(); err != nil {
		return err
	}
	return c.startAPIServer(ctx)
}

func (c *ControlPlane) apiServerArgs() []string {
	mode := "AlwaysAllow"
	if c.cfg.RBAC {
		mode = "RBAC"
	}
	args := []string{
		"--etcd-servers=" + c.etcdURL(),
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none", // 127.0.0.1 is no address for an Endpoints object
		"--secure-port=" + strconv.Itoa(c.apiPort),
		"--cert-dir=" + filepath.Dir(c.files.ca),
		"--client-ca-file=" + c.files.ca,
		"--tls-cert-file=" + c.files.cert,
		"--tls-private-key-file=" + c.files.key,
		"--service-account-issuer=https://kube-eventbridge.test",
		"--service-account-key-file=" + c.files.serviceAccount,
		"--service-account-signing-key-file=" + c.files.serviceAccount,
		"--service-cluster-ip-range=10.0.0.0/24",
		"--allow-privileged=true",
		"--shutdown-send-retry-after=true", // without it a stop waits a minute for open watches
	}
	const modes = "--authorization-mode=" // a second one would add to it
	if !slices.ContainsFunc(c.cfg.APIServerArgs, func(a string) bool { return strings.HasPrefix(a, modes) }) {
		args = append(args, modes+mode)
	}
	if !c.cfg.ServiceAccounts {
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	return append(args, c.cfg.APIServerArgs...)
}

// apiReady returns nil once the server says so and the namespaces are there that everybody takes for granted.
func (c *ControlPlane) apiReady(ctx context.Context, client *http.Client) error {
	for _, path := range []string{"/readyz", "/api/v1/namespaces/default", "/api/v1/namespaces/kube-system"} {
		if err := get(ctx, client, c.admin.Host+path); err != nil {
			return err
		}
	}
	return nil
}

// get returns an error unless the answer is 200.
func get(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close() //nolint:errcheck // read only
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 1<<20))
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, res.Status)
	}
	return nil
}
