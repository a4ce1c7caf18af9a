-- Has wrk check every response (status, length, content) and end like Load does: when the time is over nothing more is
-- sent, and wrk is told to stop once all that is under way was answered. Arguments: seconds, path, Connection header, file with
-- the body expected. One thread only.
local ffi = require("ffi")
ffi.cdef("typedef struct { long s; long ns; } bench_time; int clock_gettime(int id, bench_time *at);")
local at = ffi.new("bench_time")

local function now()
  ffi.C.clock_gettime(1, at)
  return tonumber(at.s) + tonumber(at.ns) / 1e9
end

local bytes, expected, deadline, seconds
sent, completed, micros, wrong, why = 0, 0, 0, 0, ""

function init(args)
  seconds = tonumber(args[1])
  local headers = { ["Host"] = "bench.test", ["User-Agent"] = "paceline-bench", ["Accept"] = "*/*" }
  if args[3] == "close" then headers["Connection"] = "close" end
  bytes = wrk.format("GET", args[2], headers)
  local file = assert(io.open(args[4], "rb"))
  expected = file:read("*a")
  file:close()
end

local told = false
local function tell_when_drained(time)
  if not told and time > deadline and sent == completed then
    told = true
    io.write("drained\n")
    io.flush()
  end
end

-- wrk asks for one request before it starts, to see what the script makes, and doesn't send it.
local asked = false
function request()
  if not asked then
    asked = true
    return bytes
  end
  local time = now()
  deadline = deadline or time + seconds
  if time > deadline then
    tell_when_drained(time)
    return ""
  end
  sent = sent + 1
  return bytes
end

function response(status, headers, body)
  local time = now()
  completed = completed + 1
  micros = math.floor((time - deadline + seconds) * 1e6)
  if status ~= 200 or body ~= expected then
    wrong = wrong + 1
    why = "status " .. status .. ", " .. #body .. " bytes"
  end
  tell_when_drained(time)
end

local threads = {}
function setup(thread)
  table.insert(threads, thread)
end

function done(summary, latency, requests)
  local thread = threads[1]
  local errors = summary.errors
  io.write(string.format("result sent=%d completed=%d micros=%d wrong=%d connect=%d read=%d write=%d timeout=%d p50=%d p99=%d\n",
    thread:get("sent"), thread:get("completed"), thread:get("micros"), thread:get("wrong"), errors.connect, errors.read, errors.write,
    errors.timeout, latency:percentile(50), latency:percentile(99)))
  io.write("why " .. thread:get("why") .. "\n")
end
