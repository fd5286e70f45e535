// SPDX-License-Identifier: Apache-2.0

package applyloop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/remote"
)

// settings are what is read of a replica's file. The other keys are ignored.
type settings struct {
	Kubernetes struct {
		Kubeconfig string `yaml:"kubeconfig"`
	} `yaml:"kubernetes"`
	Server struct {
		Listen string `yaml:"listen"`
	} `yaml:"server"`
	Replicas []struct {
		Name      string `yaml:"name"`
		From      from   `yaml:"from"`
		Resources []struct {
			Namespaces []string `yaml:"namespaces"`
		} `yaml:"resources"`
		Into struct {
			Namespaces map[string]string `yaml:"namespaces"`
		} `yaml:"into"`
	} `yaml:"replicas"`
}

type from struct {
	Cluster string `yaml:"cluster"`
	NATS    struct {
		Servers []string `yaml:"servers"`
		Stream  string   `yaml:"stream"`
	} `yaml:"nats"`
}

func load(file string) (*settings, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c := &settings{}
	if err := yaml.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if len(c.Replicas) != 1 || len(c.from().NATS.Servers) == 0 || len(c.Replicas[0].Resources) == 0 {
		return nil, errors.New("the file needs one replica, of resources in a NATS server")
	}
	return c, nil
}

func (c *settings) from() *from { return &c.Replicas[0].From }

func (c *settings) rules() (*clean.Rules, error) {
	r := &c.Replicas[0]
	return clean.New(clean.Config{
		Replica: r.Name, Cluster: r.From.Cluster, Namespaces: r.Into.Namespaces, Selected: r.Resources[0].Namespaces,
	})
}

// selects reports whether an object is in one of the namespaces, which are the same for all resources.
func (c *settings) selects(e *event.Event) bool {
	return e.Attr("clustername") == c.from().Cluster &&
		slices.Contains(c.Replicas[0].Resources[0].Namespaces, e.Attr("namespace"))
}

// serve answers as replicate does: it is always caught up, and nothing stops it.
func serve(ctx context.Context, c *settings) error {
	answer, err := json.Marshal(remote.Answer{Replicas: []remote.Replica{{
		Status: replica.Status{Name: c.Replicas[0].Name, CaughtUp: true}, Running: true,
	}}})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc(remote.Path, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(answer) // who asked has gone
	})
	server := &http.Server{Addr: c.Server.Listen, Handler: mux, ReadHeaderTimeout: time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // no one waits for an answer
	defer stop()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
