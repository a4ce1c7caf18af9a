# frozen_string_literal: true

# Judges a whole history afterwards: what no client may have seen. It never talks to a server, so that histories which must fail can be tried on it.
#
# A page that is purged owes a version to all who ask later:
#
# - everywhere, as soon as the purge was answered with "confirmed": no fault excuses an older page;
# - at the server where it was purged, as soon as it was answered at all, until that server is killed;
# - everywhere, `partition_ttl` after the purge is known to be in the journal, though nobody has confirmed it, unless the journal was lost meanwhile.
#
# A fault with `late` moves that: a purge that overlaps it is owed `partition_ttl` after its end, if nobody has confirmed it ("unconfirmed") or in any case ("all":
# there were two primaries). The server where it was purged owes it all the same.
#
# Besides, each answer must be the page that was asked for, no newer than it is, and nobody's request may fail, other than at a server that was killed.
class Judge
  # Beyond `partition_ttl`: times are those of clients on a busy machine.
  SLACK = 0.5

  Owed = Struct.new(:from, :member, :versions, :why)

  # RECORDS: see History.
  def initialize(records)
    @settings = records.find { |record| record[:kind] == "settings" }
    @of = Hash.new { |of, kind| of[kind] = [] }
    records.each { |record| @of[record[:kind]] << record }
  end

  # Sentences; none: all is well.
  def wrongs = @wrongs ||= old_pages + wrong_answers + failures

  # What the history has, so that an empty one convinces nobody.
  def counts
    reads, purges = @of["read"], @of["purge"]
    {
      "reads" => reads.size, "hits" => reads.count { |read| read[:cache].to_s.start_with?("hit") }, "from other servers" => reads.count { |read| read[:cache].to_s.include?("detail=shared") },
      "asked since nothing was known" => reads.count { |read| read[:cache].to_s.include?("detail=cluster") },
      "purges" => purges.size, "confirmed" => purges.count { |purge| purge[:outcome] == "confirmed" }, "visits" => @of["visit"].size,
      "owed by all" => owed.count { |one| one.member.nil? }, "kills" => @of["down"].size, "faults" => @of["fault"].size,
    }
  end

  private

  # In the order of time: what is owed from then on, what is owed no more, and reads.
  def old_pages
    everywhere, locally = {}, Hash.new { |all, member| all[member] = {} }
    events = owed.map { |one| [one.from, 1, one] } + @of["down"].map { |down| [down[:start], 0, down] } + @of["read"].select { |read| read[:status] == 200 }.map { |read| [read[:start], 2, read] }
    events.sort_by { |time, order, _| [time, order] }.filter_map do |_, order, event|
      case order
      when 0 then locally.delete(event[:member]) && nil
      when 1
        book = event.member ? locally[event.member] : everywhere
        event.versions.each { |page, version| book[page] = [version, event.why] if version > (book[page]&.first || 0) }
        nil
      else
        old_page(event, [everywhere[event[:page]], locally[event[:member]][event[:page]]].compact.max_by(&:first))
      end
    end
  end

  def old_page(read, (version, why))
    return if version.nil? || version_of(read) >= version
    "an old page: #{shown(read)} had version #{version_of(read)}, and #{version} is owed by #{why}"
  end

  def owed
    @owed ||= (@of["purge"] + @of["visit"]).flat_map do |purge|
      next [] if purge[:outcome] == "error"
      versions = purge[:versions].transform_keys(&:to_s)
      # Such a page may be shown once more, while it is revalidated.
      versions = versions.except(*@settings[:stale]) if purge[:soft]
      why = shown(purge)
      here = Owed.new(purge[:end], purge[:member], versions, "#{why} here") unless was_down?(purge)
      confirmed = purge[:outcome] == "confirmed"
      everywhere = confirmed ? Owed.new(late(purge, purge[:end], "all"), nil, versions, "#{why}, which was confirmed") : in_journal(purge, versions, why)
      [here, everywhere].compact
    end
  end

  def in_journal(purge, versions, why)
    sent = sent_by(purge[:member]).bsearch { |one| one[:start] > purge[:end] } or return
    return if was_down?(purge, sent[:end])
    from = sent[:end] + @settings[:ttl] + SLACK
    return if @of["fault"].any? { |fault| fault[:loses] && overlaps?(fault, purge, from) }
    Owed.new(late(purge, from, "all", "unconfirmed"), nil, versions, "#{why}, which was in the journal at #{format("%.3f", sent[:end])}")
  end

  # From when a purge is owed that would be from then on.
  def late(purge, from, *kinds)
    faults = @of["fault"].select { |fault| kinds.include?(fault[:late]) && overlaps?(fault, purge, from) }
    [from, *faults.map { |fault| fault[:end] + @settings[:ttl] + SLACK }].max
  end

  def overlaps?(fault, purge, till) = fault[:start] < till && fault[:end] > purge[:start]

  def sent_by(member)
    @sent ||= @of["sent"].group_by { |sent| sent[:member] }.transform_values { |all| all.sort_by { |sent| sent[:start] } }
    @sent.fetch(member, [])
  end

  def wrong_answers
    newest = Hash.new(1)
    changes = (@of["purge"] + @of["visit"]).flat_map { |purge| purge[:versions].map { |page, version| [page.to_s, version] } }
    changes.each { |page, version| newest[page] = [newest[page], version].max }
    @of["read"].select { |read| read[:status] == 200 }.filter_map do |read|
      page, version = read[:body].to_s.split
      next if page == read[:page] && version.to_i.between?(1, newest[page])
      "a wrong page: #{shown(read)} was #{read[:body].to_s[0, 80].inspect}"
    end
  end

  def failures
    (@of["read"] + @of["visit"] + @of["purge"]).filter_map do |request|
      next if request[:error].nil? && (request[:kind] == "purge" || request[:status] == 200)
      next if was_down?(request)
      "a failed request: #{shown(request)}: #{request[:error] || "status #{request[:status]}"}"
    end
  end

  # Whether the server was killed meanwhile, or did not answer yet.
  def was_down?(request, till = request[:end])
    @of["down"].any? { |down| down[:member] == request[:member] && down[:start] < till && down[:end] > request[:start] }
  end

  def version_of(read) = read[:body].to_s.split.last.to_i

  def shown(record)
    times = format("%.3f to %.3f", record[:start], record[:end])
    what = record[:kind] == "purge" ? "#{"soft " if record[:soft]}purge of #{record[:how]}" : "#{record[:kind]} of #{record[:page] || record[:versions].keys.join}"
    "#{what} at server #{record[:member]}, #{times}#{" (#{record[:cache]})" if record[:cache]}"
  end
end
