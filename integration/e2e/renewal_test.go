// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testcert"
)

// uses has the bridge's kubeconfig name a server and files with credentials.
func (r *fixture) uses(server, authority string, user clientcmdapi.AuthInfo) {
	r.t.Helper()
	const name = "renewed"
	require.NoError(r.t, clientcmd.WriteToFile(clientcmdapi.Config{
		CurrentContext: name,
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: server, CertificateAuthority: authority}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: &user},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name}},
	}, filepath.Join(r.dir, "kubeconfig")))
}

// replace writes a file as a volume does: whoever reads it finds all of the old one or of the new one.
func (r *fixture) replace(name string, data []byte) (path string) {
	r.t.Helper()
	path = filepath.Join(r.dir, name)
	require.NoError(r.t, os.WriteFile(path+".new", data, 0o600))
	require.NoError(r.t, os.Rename(path+".new", path))
	return path
}

// asksAgain waits until the bridge can list what it watches, which takes requests of its own.
func (r *fixture) asksAgain() {
	r.t.Helper()
	r.poll("a resync to succeed", func() (bool, string) {
		code, out, said := r.command("resync", "--server", r.server)
		return code == 0, out + said
	})
}

// A client certificate expires, and the one that has taken its place is used.
func TestBridge_uses_a_client_certificate_that_was_renewed(t *testing.T) {
	rig.Parallel(t, rig.All)
	api := controlplane.ForTest(t, controlplane.Config{})
	r := rigOn(t, api, `[{resource: configmaps, namespaces: [default]}]`)
	user := clientcmdapi.AuthInfo{}
	write := func(of *rest.Config) {
		user.ClientCertificate, user.ClientKey = r.replace("user.crt", of.CertData), r.replace("user.key", of.KeyData)
	}
	end := time.Now().Add(5 * time.Second)
	write(api.UserUntil(end, "bridge", "system:masters"))
	r.uses(api.RESTConfig().Host, api.CAFile(), user)
	b := r.runReady()
	write(api.UserUntil(time.Now().Add(time.Hour), "bridge", "system:masters"))
	must.Happen(t, "the end of the first certificate", func() bool { return time.Now().After(end.Add(time.Second)) })
	r.asksAgain()
	r.configMap("default", "later", nil)
	r.awaitStory("default/later", "added")
	b.stop()
}

// A token is not valid any more, and the one that has taken its place is used within a minute.
func TestBridge_uses_a_token_that_was_renewed(t *testing.T) {
	rig.Parallel(t, rig.All)
	api := controlplane.ForTest(t, controlplane.Config{})
	r := rigOn(t, api, `[{resource: configmaps, namespaces: [default]}]`)
	core := r.kube.CoreV1()
	must.Get(core.ServiceAccounts("default").Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "bridge"}}, metav1.CreateOptions{}))(t)
	must.Get(r.kube.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "bridge"}, RoleRef: rbacv1.RoleRef{
			APIGroup: rbacv1.GroupName,
			Kind:     "ClusterRole", Name: "cluster-admin",
		},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "bridge"}},
	}, metav1.CreateOptions{}))(t)
	// A token is valid as long as the Secret that it is bound to exists.
	write := func(name string) (file string) {
		secret := must.Get(core.Secrets("default").Create(t.Context(),
			&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
		token := must.Get(core.ServiceAccounts("default").CreateToken(t.Context(), "bridge", &authenticationv1.TokenRequest{
			Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{
				Kind: "Secret", APIVersion: "v1", Name: name, UID: secret.UID,
			}},
		}, metav1.CreateOptions{}))(t)
		return r.replace("token", []byte(token.Status.Token))
	}
	r.uses(api.RESTConfig().Host, api.CAFile(), clientcmdapi.AuthInfo{TokenFile: write("first")})
	first := rest.AnonymousClientConfig(api.RESTConfig())
	first.BearerToken = string(must.Get(os.ReadFile(filepath.Join(r.dir, "token")))(t))
	asks := must.Get(kubernetes.NewForConfig(first))(t)
	b := r.runReady()
	write("second")
	require.NoError(t, core.Secrets("default").Delete(t.Context(), "first", metav1.DeleteOptions{}))
	r.eventually("the API server to refuse the first token", func() bool {
		_, err := asks.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
		return apierrors.IsUnauthorized(err)
	})
	r.asksAgain()
	r.configMap("default", "later", nil)
	r.awaitStory("default/later", "added")
	b.stop()
}

// The API server gets a certificate of another authority, whose file has taken the place of the first one's.
func TestBridge_trusts_an_authority_that_was_renewed(t *testing.T) {
	rig.Parallel(t, rig.All)
	api := controlplane.ForTest(t, controlplane.Config{})
	r := rigOn(t, api, `[{resource: configmaps, namespaces: [default]}]`)
	proxy := httputil.NewSingleHostReverseProxy(must.Get(url.Parse(api.RESTConfig().Host))(t))
	proxy.Transport = must.Get(rest.TransportFor(api.RESTConfig()))(t)
	proxy.FlushInterval = -1
	var serving atomic.Pointer[tls.Config]
	server := httptest.NewUnstartedServer(proxy)
	server.Config.ErrorLog = nil
	server.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return serving.Load(),
			nil
	}}
	renew := func(name string) (file string) {
		authority := must.Get(testcert.New(name))(t)
		cert, key := must.Get2(authority.Server())(t)
		pair := must.Get(tls.X509KeyPair(cert, key))(t)
		serving.Store(&tls.Config{Certificates: []tls.Certificate{pair}})
		return r.replace("ca.crt", authority.PEM)
	}
	file := renew("the first authority")
	server.StartTLS()
	defer server.Close()
	r.uses(server.URL, file, clientcmdapi.AuthInfo{Token: "the proxy has credentials of its own"})
	b := r.runReady()
	renew("the second authority")
	server.CloseClientConnections()
	r.configMap("default", "later", nil)
	r.awaitStory("default/later", "added")
	r.asksAgain()
	r.awaitStatus(http.StatusOK, "ok")
	b.stop()
}
