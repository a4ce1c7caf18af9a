module GuideHelper
  # EBC colour of a beer, as a glass shows it.
  POURED = { 6 => "#f6d65b", 9 => "#eebe3b", 14 => "#dd9a26", 20 => "#c9761b", 28 => "#a95414", 38 => "#85380f",
             50 => "#5f250b", 65 => "#421808", 90 => "#2c0f06" }.freeze

  def poured(beer)
    POURED.find { |ebc, _| beer.ebc <= ebc }&.last || "#1c0a05"
  end

  def label_picture(beer, size: "medium")
    label = beer.label
    return image_tag(beer_label_path(beer, v: label.version), class: "label #{size}", alt: "Label of #{beer.name}", loading: "lazy") if label

    words = beer.name.split
    tag.div(class: "label made #{size}", style: "--beer: #{poured(beer)}", "aria-hidden": true) do
      tag.span(words.map(&:first).join, class: "letters") + tag.span(beer.style, class: "of")
    end
  end

  def stars(score)
    tag.span("★" * score + "☆" * (5 - score), class: "stars", title: "#{score} of 5")
  end

  # As precise as it is worth.
  def bench_figure(value)
    value.is_a?(Integer) || value >= 100 ? number_with_delimiter(value.round) : number_with_precision(value, precision: 3, significant: true)
  end

  def nav_link(name, path)
    link_to name, path, "aria-current": ("page" if current_page?(path))
  end
end
