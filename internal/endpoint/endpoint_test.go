// SPDX-License-Identifier: Apache-2.0

package endpoint

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestLocal_is_where_this_machine_reaches_a_server(t *testing.T) {
	for listen, want := range map[string]string{
		"127.0.0.1:8080": "127.0.0.1:8080", ":8080": "127.0.0.1:8080", "0.0.0.0:9090": "127.0.0.1:9090", "[::]:8080": "[::1]:8080",
		"localhost:1": "localhost:1", "10.1.2.3:8080": "10.1.2.3:8080", "[fd00::1]:8080": "[fd00::1]:8080", "strange": "strange",
	} {
		assert.Equal(t, want, Local(listen), "%s is reached", listen)
	}
}

func TestURL_keeps_the_path_that_a_proxy_has_before_it(t *testing.T) {
	for server, want := range map[string]string{
		"127.0.0.1:8080": "http://127.0.0.1:8080/api/status", "localhost:8080": "http://localhost:8080/api/status", "http://[::1]:1": "http://[::1]:1/api/status",
		"https://gate/bridge/": "https://gate/bridge/api/status",
	} {
		u := must.Get(URL(server, "/api/status"))(t)
		assert.Equal(t, want, u.String(), server)
	}
	for _, server := range []string{"", "ftp://x", "http://", "http://x?y", "http://x#y", "http://[::1", ":"} {
		u, err := URL(server, "/x")
		assert.Error(t, err, "%q is %s", server, u.String())
	}
}
