//go:build tools

// Names Pebble and its name server, so that go.mod and go.sum hold them and all they need.
// An older one, because of the Go 1.19 of Debian 12.
package tools

import (
	_ "github.com/letsencrypt/pebble/v2/cmd/pebble"
	_ "github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv"
)
