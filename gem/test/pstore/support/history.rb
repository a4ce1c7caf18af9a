# frozen_string_literal: true

# Whether what concurrent transactions saw can be explained by doing them one after the other, each at some moment between its begin and its
# end (strict serializability, which for transactions is what linearizability is for single operations).
#
# Every root holds a number that each writer raises by one, so that a value says which write it is of: the order of the writes of a root is known,
# and nothing has to be searched for. What is left are orders that must hold between transactions: by a root's values, and by time, one having ended
# before the other began. There is such an order of all if and only if these have no circle.
module History
  # One transaction: who, when it began and ended (CLOCK_MONOTONIC), what it read and what it wrote (roots and their numbers).
  Transaction = Struct.new(:who, :from, :to, :read, :wrote)

  module_function

  # What is wrong, in words, or nil. `last`: what the roots hold in the end; they began at 0.
  def wrong(transactions, last)
    writers = {}
    transactions.each do |transaction|
      transaction.wrote.each do |root, number|
        return "two wrote #{number} to #{root}: an update is lost (#{transaction.who}, #{writers[[root, number]].who})" if writers.key?([root, number])
        return "#{root} was #{transaction.read[root]}, and #{number} was written" unless number == transaction.read.fetch(root) + 1

        writers[[root, number]] = transaction
      end
    end
    transactions.each do |transaction|
      transaction.read.each { |root, number| return "#{number} was read of #{root}, which nobody wrote" unless number.zero? || writers.key?([root, number]) }
    end
    last.each { |root, number| return "#{root} is #{number} in the end, and has been more" if writers.key?([root, number + 1]) }
    circle(transactions, writers)
  end

  # By depth-first search; time is a chain of moments, so that not every pair has to be looked at.
  def circle(transactions, writers)
    edges = Hash.new { |all, from| all[from] = [] }.compare_by_identity
    transactions.each do |transaction|
      transaction.read.each do |root, number|
        before, after = writers[[root, number]], writers[[root, number + 1]]
        edges[before] << transaction if before && !before.equal?(transaction)
        edges[transaction] << after if after && !after.equal?(transaction)
      end
    end
    moments = (transactions.map { |t| [t.from, 0, t] } + transactions.map { |t| [t.to, 1, t] }).sort_by { |time, kind, _| [time, kind] }
    previous = nil
    moments.each do |_, kind, transaction|
      moment = Object.new
      edges[previous] << moment if previous
      kind.zero? ? edges[moment] << transaction : edges[transaction] << moment
      previous = moment
    end
    found = search(edges) and "no order explains it: #{found.grep(Transaction).first(6).map(&:to_a).inspect}"
  end

  def search(edges)
    state = {}.compare_by_identity
    edges.keys.each do |start|
      next if state[start]

      path = [[start, 0]]
      state[start] = :open
      until path.empty?
        node, index = path.last
        following = edges.key?(node) ? edges[node][index] : nil
        if following.nil?
          state[node] = :done
          path.pop
        else
          path.last[1] += 1
          return path.map(&:first).drop_while { |one| !one.equal?(following) } if state[following] == :open

          state[following] ||= (path << [following, 0]) && :open
        end
      end
    end
    nil
  end
end
