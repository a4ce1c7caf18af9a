//go:build tools

// Names Pebble and its name server, so that go.mod and go.sum hold them and all they need.
package tools

import (
	_ "github.com/letsencrypt/pebble/v2/cmd/pebble"
	_ "github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv"
)
