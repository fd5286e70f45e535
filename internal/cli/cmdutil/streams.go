// SPDX-License-Identifier: Apache-2.0

package cmdutil

import (
	"io"
	"log/slog"
	"os"

	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/internal/app"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/inert"
	"github.com/kube-eventbridge/kube-eventbridge/internal/wiring"
)

// Streams are the process's standard streams.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// Klog, if not nil, is told where what client-go logs goes. There is one such place in a process.
	Klog  func(*slog.Logger)
	Build app.Build
	// Hangups, if not nil, returns where each SIGHUP is told from then on, and what ends that.
	Hangups func() (<-chan os.Signal, func())
}

// Text returns where text for a person goes. No terminal obeys it.
func (s *Streams) Text() io.Writer { return inert.NewWriter(s.Out) }

// RestConfig finds the API server as kubectl does.
func (s *Streams) RestConfig(k config.Kubernetes) (*rest.Config, error) {
	return wiring.RestConfig(k, s.Build.UserAgent())
}
