def answer(message):
    if "cart" not in message:
        return {"response": "Hi! How can I help?", "predicted_trajectory": []}
    cart = {"tool_name": "access_cart", "tool_input": {"customer_id": "123"}}
    return {"response": "You have one bag of soil.", "predicted_trajectory": [cart]}
