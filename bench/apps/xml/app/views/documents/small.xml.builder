xml.instruct!
xml.order(number: @order.number) do
  xml.to @order.customer
  xml.by @order.seller
  xml.item @order.item
  xml.crates @order.crates
  xml.at @order.day
  xml.cold
  xml.note @order.note
end
