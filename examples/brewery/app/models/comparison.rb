# How two ways compare, in words: how many times better or worse, or that no difference was seen.
module Comparison
  # With one round nothing is known of how much figures vary by themselves: so much may be that.
  ALONE = 0.1

  module_function

  # RATIO: how many times better; SPREAD: the least and the most of the rounds. BETTER, WORSE: what is said of a number. Nil if the ratio is none.
  def text(ratio, spread, better: "times better", worse: "times worse")
    return unless ratio&.positive?
    return "no difference" if none?(ratio, spread)

    ratio > 1 ? "#{short(ratio)} #{better}" : "#{short(1 / ratio)} #{worse}"
  end

  # Whether the rounds do not agree on which of them is better.
  def none?(ratio, spread)
    least, most = spread && spread.uniq.size > 1 ? spread : [ratio * (1 - ALONE), ratio * (1 + ALONE)]
    least <= 1 && most >= 1
  end

  def short(ratio) = ratio >= 10 ? ratio.round.to_s : format("%.2f", ratio).sub(/\.?0+\z/, "")
end
