require "net/http"
