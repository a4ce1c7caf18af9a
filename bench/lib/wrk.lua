-- Has wrk check every response (status, length, content) and end like Load does: when the time is over nothing more is
-- sent, and wrk is told to stop once all that is under way was answered. One thread only. Arguments: seconds, path, Connection
-- header, file with the body expected; then, if wanted: a header (as the server writes it) and a pattern it must match, "each" or
-- "random" and a number N: keys 0 to N - 1 are put behind the path, each once instead of for so long, or one drawn for each request.
local ffi = require("ffi")
ffi.cdef("typedef struct { long s; long ns; } bench_time; int clock_gettime(int id, bench_time *at);")
local at = ffi.new("bench_time")

local function now()
  ffi.C.clock_gettime(1, at)
  return tonumber(at.s) + tonumber(at.ns) / 1e9
end

local bytes, expected, deadline, seconds, field, pattern, order, keys
sent, completed, timely, micros, wrong, why = 0, 0, 0, 0, 0, ""

function init(args)
  seconds = tonumber(args[1])
  local headers = { ["Host"] = "bench.test", ["User-Agent"] = "paceline-bench", ["Accept"] = "*/*" }
  if args[3] == "close" then headers["Connection"] = "close" end
  bytes = wrk.format("GET", args[2], headers)
  local file = assert(io.open(args[4], "rb"))
  expected = file:read("*a")
  file:close()
  field, pattern, order, keys = args[5], args[6], args[7], tonumber(args[8])
  if field == "" then field = nil end
  if order then
    local start = "GET " .. args[2]
    local rest = bytes:sub(#start + 1)
    bytes = function(key) return string.format("%s%d%s", start, key, rest) end
  end
end

local function over(time)
  if order == "each" then return sent >= keys end
  return time > deadline
end

local told = false
local function tell_when_drained(time)
  if not told and over(time) and sent == completed then
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
    return order and bytes(0) or bytes
  end
  local time = now()
  deadline = deadline or time + seconds
  if over(time) then
    tell_when_drained(time)
    return ""
  end
  sent = sent + 1
  if not order then return bytes end
  return bytes(order == "each" and sent - 1 or math.random(0, keys - 1))
end

function response(status, headers, body)
  local time = now()
  completed = completed + 1
  if time <= deadline then timely = timely + 1 end
  micros = math.floor((time - deadline + seconds) * 1e6)
  if status ~= 200 or body ~= expected then
    wrong = wrong + 1
    why = "status " .. status .. ", " .. #body .. " bytes"
  elseif field and not (headers[field] or ""):find(pattern) then
    wrong = wrong + 1
    why = field .. ": " .. (headers[field] or "none")
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
  io.write(string.format("result sent=%d completed=%d timely=%d micros=%d wrong=%d connect=%d read=%d write=%d timeout=%d p50=%d p99=%d\n",
    thread:get("sent"), thread:get("completed"), thread:get("timely"), thread:get("micros"), thread:get("wrong"), errors.connect, errors.read,
    errors.write, errors.timeout, latency:percentile(50), latency:percentile(99)))
  io.write("why " .. thread:get("why") .. "\n")
end
