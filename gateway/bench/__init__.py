"""Load for a gateway: clients as they come, speak and leave, and what they heard."""
