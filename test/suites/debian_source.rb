# frozen_string_literal: true

# Fetches what upstream wrote of a Debian source package, its tests included, and unpacks it into tmp/suites/: the test suites of libraries run
# from there, on machines that reach Debian's archive and nothing else.
#
#   require_relative "debian_source"
#   Suites::DebianSource.unpack("ruby-builder")                     # => ".../tmp/suites/bookworm/ruby-builder_3.2.4"
#   Suites::DebianSource.unpack("ruby-builder", release: "trixie")  # as another release of Debian has it
#
#   ruby test/suites/debian_source.rb ruby-builder [RELEASE]        # prints the folder
#
# It asks apt-get with lists and caches of its own: nothing in /etc/apt or /var/lib/apt changes, and root is not needed. A version that has been
# unpacked is not fetched again. The list of packages is renewed once a day; without network what has been unpacked before is used.
require "fileutils"
require "open3"

module Suites
  module DebianSource
    class Error < StandardError; end

    CHECKOUT = File.expand_path("../..", __dir__)
    KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
    # Seconds after which the list of packages is asked for again.
    FRESH = 24 * 3600
    TARBALL = /^'[^']+' (\S+\.orig\.tar\.\w+) \d+/

    module_function

    # The folder with the upstream source of PACKAGE, as RELEASE (a code name; default: this machine's) has it. Raises Error.
    def unpack(package, release: installed_release)
      raise ArgumentError, "not a source package: #{package.inspect}" unless package.match?(/\A[a-z0-9][a-z0-9+.-]+\z/)

      home = File.join(CHECKOUT, "tmp/suites", release)
      FileUtils.mkdir_p(home)
      File.open(File.join(home, "lock"), File::RDWR | File::CREAT) do |lock|
        lock.flock(File::LOCK_EX)
        renewed = renew(home, release)
        tarball = tarball(home, package) if renewed
        next unpacked_before(home, package, release) unless tarball

        folder = File.join(home, tarball[/\A(.+)\.orig\.tar/, 1])
        extract(home, package, tarball, folder) unless File.directory?(folder)
        folder
      end
    end

    # This machine's release of Debian, as "bookworm".
    def installed_release
      File.foreach("/etc/os-release") { |line| return $1 if line =~ /\AVERSION_CODENAME="?(\w+)/ }
      raise Error, "/etc/os-release names no release of Debian; give one (release: \"bookworm\")"
    end

    # The archive that this machine's apt uses.
    def mirror
      listed, = Open3.capture2e("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian")
      listed.lines.map { |line| line.strip.delete_suffix("/") }.find { |uri| uri.match?(%r{\Ahttps?://.*/debian\z}) } || "http://deb.debian.org/debian"
    end

    # True when there is a list of packages. A machine without network keeps the one it has.
    def renew(home, release)
      lists = File.join(home, "lists")
      stamp = File.join(home, "renewed")
      return true if File.exist?(stamp) && Time.now - File.mtime(stamp) < FRESH

      FileUtils.mkdir_p([File.join(lists, "partial"), File.join(home, "cache/archives/partial")])
      signed = File.exist?(KEYRING) ? "[signed-by=#{KEYRING}] " : ""
      File.write(File.join(home, "sources.list"), "deb-src #{signed}#{mirror} #{release} main\n")
      said, status = apt(home, "update", "--error-on=any")
      FileUtils.touch(stamp) if status.success?
      warn "#{self}: #{said}" unless status.success?
      File.exist?(stamp)
    end

    # The name of upstream's tarball; nil when there is no such package.
    def tarball(home, package)
      said, = apt(home, "source", "--print-uris", "--tar-only", package)
      said[TARBALL, 1]
    end

    def extract(home, package, tarball, folder)
      said, status = apt(home, "source", "--download-only", "--tar-only", package)
      raise Error, "#{package} can't be fetched: #{said}" unless status.success?

      fetched = File.join(home, tarball)
      half = "#{folder}.part"
      FileUtils.rm_rf(half)
      FileUtils.mkdir_p(half)
      said, status = Open3.capture2e("tar", "-xf", fetched, "-C", half, "--strip-components=1", "--no-same-owner")
      raise Error, "#{fetched} can't be unpacked: #{said}" unless status.success?

      File.rename(half, folder)
    ensure
      # apt-get names no tarball that is there already.
      FileUtils.rm_f(fetched) if fetched
    end

    def unpacked_before(home, package, release)
      found = Dir.glob(File.join(home, "#{package}_*")).select { |path| File.directory?(path) && !path.end_with?(".part") }.max_by { |path| File.mtime(path) }
      found or raise Error, "Debian #{release} has no source package #{package}, or its archive can't be reached"
    end

    def apt(home, *command)
      own = { "Dir::Etc::sourcelist" => "#{home}/sources.list", "Dir::Etc::sourceparts" => "-", "Dir::State::lists" => "#{home}/lists",
              "Dir::Cache" => "#{home}/cache", "Acquire::Languages" => "none", "Acquire::Retries" => "2", "APT::Sandbox::User" => "" }
      options = own.flat_map { |name, value| ["-o", "#{name}=#{value}"] }
      Open3.capture2e({ "LC_ALL" => "C.UTF-8" }, "apt-get", *options, *command, chdir: home)
    end
    private_class_method :renew, :tarball, :extract, :unpacked_before, :apt
  end
end

puts Suites::DebianSource.unpack(ARGV.fetch(0), **(ARGV[1] ? { release: ARGV[1] } : {})) if $PROGRAM_NAME == __FILE__
