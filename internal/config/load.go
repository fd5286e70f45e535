// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config/rules"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config/value"
)

// Load reads and checks the file. An error is a [Problems] with everything that is wrong with it. The warnings name
// what is allowed and costs something that is otherwise promised. Relative paths in the file are relative to its
// directory, and absolute in what is returned.
func Load(file string) (c *Config, warnings Problems, err error) {
	data, err := Read(file)
	if err != nil {
		return nil, nil, err
	}
	return LoadRead(file, data)
}

// Read returns what is in the file. An error is a [Problems].
func Read(file string) ([]byte, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		var cause *fs.PathError
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return nil, Problems{{File: file, Message: fmt.Sprintf("cannot be read: %v; give an existing file", err)}}
	}
	return data, nil
}

// LoadRead is [Load] for a file that was read.
func LoadRead(file string, data []byte) (c *Config, warnings Problems, err error) {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, nil, Problems{{File: file, Message: fmt.Sprintf("its directory cannot be found: %v", err)}}
	}
	if c, warnings, err = Parse(file, data); c != nil {
		c.resolve(dir)
	}
	return c, warnings, err
}

// resolve makes relative paths those of files in dir, so that they mean the same wherever the process is started.
func (c *Config) resolve(dir string) {
	rules.Each(c, &whole, func(_ string, v reflect.Value, k *rules.Kind) {
		if k.File && v.String() != "" && !filepath.IsAbs(v.String()) {
			v.SetString(filepath.Join(dir, v.String()))
		}
	})
}

// Parse is [Load] for what is already read; file is used in messages only, and paths are left as they are.
func Parse(file string, data []byte) (c *Config, warnings Problems, err error) {
	c = new(Config)
	d := rules.Decode(file, data, c, &whole)
	found := d.Problems()
	if d.Unreadable() { // what is not a mapping is not worth a second complaint
		return nil, nil, d.Place(found)
	}
	c.complete()
	report := c.check()
	for _, p := range report.Problems {
		if !d.Known(p.Path) {
			found = append(found, p)
		}
	}
	if len(found) > 0 {
		return nil, d.Place(report.Warnings), d.Place(found)
	}
	return c, d.Place(report.Warnings), nil
}

// complete gives a pipeline without a sink the embedded server.
func (c *Config) complete() {
	for i := range c.Pipelines {
		if s := &c.Pipelines[i].Sink; *s == (Sink{}) {
			s.Embedded = new(Embedded)
			rules.SetDefaults(s.Embedded, mapping(embeddedKeys).Keys)
		}
	}
}

// LoadServer returns the server of a file that may be wrong elsewhere; false if server.listen cannot be told, or,
// where it is asked for, server.admin.
func LoadServer(file string, admin bool) (server Server, known bool) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Server{}, false
	}
	c := new(Config)
	d := rules.Decode(file, data, c, &whole)
	known = !d.Unreadable() && !d.Known("server.listen") && value.Listenable(c.Server.Listen)
	if admin {
		known = known && !d.Known("server.admin") && (c.Server.Admin == "" || value.Listenable(c.Server.Admin))
	}
	return c.Server, known
}

// Place gives problems with a file that were found elsewhere, with a path each, their places in it.
func Place(file string, found Problems) Problems {
	data, err := os.ReadFile(file)
	if err != nil {
		data = nil // without it nothing has a place
	}
	return PlaceRead(file, data, found)
}

// PlaceRead is [Place] for a file that was read.
func PlaceRead(file string, data []byte, found Problems) Problems {
	return rules.Decode(file, data, new(Config), &whole).Place(found)
}
