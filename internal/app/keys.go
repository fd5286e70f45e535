// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/file"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
)

// keys names settings as the user does.
type keys struct {
	// fromArgs: there is no file, so errors name flags.
	fromArgs bool
}

// listenKey is what the user calls the address of metrics and health.
func (k keys) listenKey() string {
	if k.fromArgs {
		return "--listen"
	}
	return "server.listen"
}

// brokerKey is what the user calls the address of the embedded server of pipeline i.
func (k keys) brokerKey(i int) string {
	if k.fromArgs {
		return "--broker-listen"
	}
	return fmt.Sprintf("pipelines[%d].sink.embedded.listen", i)
}

// storeKey is what the user calls the directory of the embedded server of pipeline i of a configuration.
func (k keys) storeKey(cfg *config.Config, i int) string {
	if e := cfg.Pipelines[i].Sink.Embedded; e != nil && e.StoreDir != "" {
		return fmt.Sprintf("pipelines[%d].sink.embedded.storeDir", i)
	}
	return k.dataKey()
}

// dataKey is what the user calls the directory of all state.
func (k keys) dataKey() string {
	if k.fromArgs {
		return "--data-dir"
	}
	return "dataDir"
}

// checkpointError adds to why the checkpoint of pipeline i of a configuration cannot be used which setting names
// another.
func (k keys) checkpointError(cfg *config.Config, i int, err error) error {
	key := k.dataKey()
	if cfg.Pipelines[i].Checkpoint.File.Path != "" {
		key = fmt.Sprintf("pipelines[%d].checkpoint.file.path", i)
	}
	var foreign *checkpoint.ForeignError
	var busy *file.BusyError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &foreign):
		return fmt.Errorf("%w; another path is named with %s", err, key)
	case errors.As(err, &busy):
		return fmt.Errorf("%w; another path is named with %s, and needs a log of its own, or both publish everything; "+
			"for a process that stands by, set leaderElection", err, key)
	case unwritable(err):
		return fmt.Errorf("%w; set %s to a directory that can be written", err, key)
	default:
		return err
	}
}

// unwritable reports whether err is about a place where nothing can be written, whoever tries again.
func unwritable(err error) bool {
	for _, cause := range []error{fs.ErrPermission, syscall.EROFS, syscall.ENOTDIR, fs.ErrNotExist} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}
