// SPDX-License-Identifier: Apache-2.0

package replicawrite

import (
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testcert"
)

// webhook is one that validates ConfigMaps of the namespace hooked.
type webhook struct {
	server  *httptest.Server
	refusal atomic.Pointer[metav1.Status] // nil: no status
	calls   atomic.Int64
}

// newWebhook returns a webhook that the API server calls, and that refuses everything.
func newWebhook(t *testing.T, u *user) *webhook {
	h := &webhook{}
	h.server = httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		h.calls.Add(1)
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Result: h.refusal.Load()}
		review.Request = nil
		_ = json.NewEncoder(rw).Encode(review)
	}))
	authority := testcert.ForTest(t, "webhooks")
	cert, key := must.Get2(authority.Server(net.IPv4(127, 0, 0, 1)))(t)
	h.server.TLS = &tls.Config{Certificates: []tls.Certificate{must.Get(tls.X509KeyPair(cert, key))(t)}}
	h.server.StartTLS()
	t.Cleanup(h.server.Close)
	ca := must.Get(json.Marshal(authority.PEM))(t)
	u.made(namespace("hooked"))
	u.made(manifest("validatingwebhookconfigurations", `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hook}
webhooks:
  - name: hook.example.com
    admissionReviewVersions: [v1]
    sideEffects: None
    failurePolicy: Fail
    clientConfig: {url: "`+h.server.URL+`", caBundle: `+string(ca)+`}
    namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: hooked}}
    rules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]
`))
	must.Happen(t, "a call of the webhook", func() bool {
		a := u.do(tryCreate, configMap("hooked", "first"))
		require.NotZero(t, a.Code, a.Message)
		return h.calls.Load() > 0
	})
	return h
}
