// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/goccy/go-yaml"
)

// config is what is read of the bridge's file. The other keys are ignored, and so are pipelines after the first.
type config struct {
	Cluster    string `yaml:"cluster"`
	Kubernetes struct {
		Kubeconfig string `yaml:"kubeconfig"`
	} `yaml:"kubernetes"`
	Server struct {
		Listen string `yaml:"listen"`
	} `yaml:"server"`
	Pipelines []struct {
		Name      string     `yaml:"name"`
		Resources []resource `yaml:"resources"`
		Sink      struct {
			NATS natsConfig `yaml:"nats"`
		} `yaml:"sink"`
	} `yaml:"pipelines"`
}

type resource struct {
	Resource      string   `yaml:"resource"`
	Namespaces    []string `yaml:"namespaces"`
	LabelSelector string   `yaml:"labelSelector"`
}

type natsConfig struct {
	Servers         []string      `yaml:"servers"`
	Stream          string        `yaml:"stream"`
	DuplicateWindow time.Duration `yaml:"duplicateWindow"`
}

func load(file string) (*config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c := &config{}
	if err := yaml.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if len(c.Pipelines) == 0 || len(c.nats().Servers) == 0 {
		return nil, errors.New("the file needs a pipeline with a NATS server")
	}
	return c, nil
}

func (c *config) pipeline() string { return c.Pipelines[0].Name }

func (c *config) nats() natsConfig { return c.Pipelines[0].Sink.NATS }

func (c *config) resources() []resource { return c.Pipelines[0].Resources }
