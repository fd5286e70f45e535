// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// RESTConfig returns a configuration for a user who may do everything, without a limit of requests per second. It is
// the caller's to change.
func (c *ControlPlane) RESTConfig() *rest.Config {
	return rest.CopyConfig(c.admin)
}

// User returns a configuration for a user with a certificate of this name and these groups. With RBAC the user may do
// what roles allow; the group system:masters may do everything.
func (c *ControlPlane) User(name string, groups ...string) *rest.Config {
	return c.UserUntil(time.Now().Add(7*24*time.Hour), name, groups...)
}

// UserUntil is User for a certificate that expires at a time.
func (c *ControlPlane) UserUntil(end time.Time, name string, groups ...string) *rest.Config {
	cert, key, err := c.ca.UserUntil(end, name, groups...)
	if err != nil {
		panic("BUG: " + err.Error()) // keys of our own making do not fail to sign
	}
	return &rest.Config{
		Host:            "https://127.0.0.1:" + strconv.Itoa(c.apiPort),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.ca.PEM, CertData: cert, KeyData: key},
		QPS:             -1,
	}
}

// CAFile returns the path of the authority's certificate, which signed those of the API server and of all users.
func (c *ControlPlane) CAFile() string { return c.files.ca }

// ServiceAccountKeyFile returns the path of the private key that a controller manager signs service accounts' tokens
// with.
func (c *ControlPlane) ServiceAccountKeyFile() string { return c.files.serviceAccount }

// Kubeconfig writes a kubeconfig for the user of RESTConfig to dir and returns its path. Only the owner can read it.
func (c *ControlPlane) Kubeconfig(dir string) (string, error) {
	return WriteKubeconfig(c.admin, filepath.Join(dir, "kubeconfig"))
}

// WriteKubeconfig writes a configuration made by [ControlPlane.RESTConfig] or [ControlPlane.User] to a file for kubectl
// and others, and returns its path. Only the owner can read it. A file that is there is replaced.
func WriteKubeconfig(cfg *rest.Config, path string) (string, error) {
	const name = "kube-eventbridge-test"
	return path, WriteContexts(path, map[string]*rest.Config{name: cfg}, name)
}

// WriteContexts is [WriteKubeconfig] for several clusters, by the names of their contexts.
func WriteContexts(path string, contexts map[string]*rest.Config, current string) error {
	all := clientcmdapi.NewConfig()
	all.CurrentContext = current
	for name, cfg := range contexts {
		all.Clusters[name] = &clientcmdapi.Cluster{Server: cfg.Host, CertificateAuthorityData: cfg.CAData}
		all.AuthInfos[name] = &clientcmdapi.AuthInfo{
			ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData,
			ClientCertificate: cfg.CertFile, ClientKey: cfg.KeyFile, Token: cfg.BearerToken,
		}
		all.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	data, err := clientcmd.Write(*all)
	if err != nil {
		return fmt.Errorf("encode kubeconfig: %w", err)
	}
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) { // an old file would keep its mode
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}

// Revision returns etcd's current revision: the resourceVersion of the last write.
func (c *ControlPlane) Revision(ctx context.Context) (revision int64, err error) {
	err = c.withEtcd(func(client *clientv3.Client) error {
		now, err := client.Get(ctx, "/", clientv3.WithCountOnly())
		if err != nil {
			return fmt.Errorf("read revision: %w", err)
		}
		revision = now.Header.Revision
		return nil
	})
	return revision, err
}

// ServingCertificate returns the API server's own certificate, for a proxy on 127.0.0.1 that its clients are to take
// for it.
func (c *ControlPlane) ServingCertificate() (tls.Certificate, error) {
	cert, err := tls.LoadX509KeyPair(c.files.cert, c.files.key)
	if err != nil {
		return cert, fmt.Errorf("read the serving certificate: %w", err)
	}
	return cert, nil
}
