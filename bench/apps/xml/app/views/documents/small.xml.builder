xml.instruct!
xml.order(number: @order.number, state: "open") do
  xml.customer @order.customer
  xml.item @order.item
  xml.crates @order.crates
  xml.note @order.note
end
